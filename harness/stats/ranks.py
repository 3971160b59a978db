"""Counters of single ranks of a server, among counters by meaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_AT, _BETWEEN = "@", "|"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Rank:
    """replica: one of those that have a cache each. shard: one of those that hold a replica's requests between them.

    Both as the server labels them, "" where it has no label for it.
    """

    replica: str
    shard: str

    def __str__(self) -> str:
        """The labels, as a reader may know them from the server's own page."""
        return ",".join(part for part in (self.replica, self.shard) if part)


def at_rank(meaning: str, rank: Rank) -> str:
    """What a counter of one rank is called among counters by meaning."""
    return f"{meaning}{_AT}{rank.replica}{_BETWEEN}{rank.shard}"


def ranks_in(names: Iterable[str], meaning: str) -> list[Rank]:
    """The ranks that have a counter of this meaning, sorted."""
    found = [name.partition(_AT)[2] for name in names if name.startswith(f"{meaning}{_AT}")]
    return sorted(
        Rank(replica=replica, shard=shard) for replica, _, shard in (name.rpartition(_BETWEEN) for name in found)
    )
