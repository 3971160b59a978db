"""What produced a run: versions, host and clock, for run.json."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from harness.clock import Clock
from workloads.plan import Json

PACKAGES = ("ling-bench", "aiohttp", "numpy", "orjson", "uvloop")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that touch a measurement; what is not installed is left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def host_facts() -> dict[str, Json]:
    """The machine the harness ran on; no name of a host or user."""
    load = os.getloadavg()[0]
    return {"system": platform.platform(), "machine": platform.machine(), "cpus": os.cpu_count(), "load_1m": load}


def clock_facts(clock: Clock) -> dict[str, Json]:
    """One moment on both clocks, which ties the records' monotonic times to the calendar."""
    return {"monotonic_ns": clock.now_ns(), "utc": clock.utc_now().isoformat()}
