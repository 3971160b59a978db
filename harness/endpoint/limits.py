"""How many sockets this process may open."""

from __future__ import annotations

import resource

_FILES_BESIDE_SOCKETS = 128


def raise_file_limit(sockets: int) -> int:
    """Raise the soft limit of open files so that `sockets` fit, and return how many do fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = sockets + _FILES_BESIDE_SOCKETS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return sockets
    new = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (new, hard))
    return max(0, min(sockets, new - _FILES_BESIDE_SOCKETS))
