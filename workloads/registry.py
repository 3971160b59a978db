"""The workloads by the names the command line takes."""

from __future__ import annotations

from collections.abc import Callable

from workloads.agent import agent
from workloads.options import WorkloadOptions
from workloads.prose import prose
from workloads.repeat import repeat
from workloads.sessions import SessionGenerator
from workloads.text import CountTokens
from workloads.uniform import random_lengths

WORKLOADS: dict[str, Callable[[WorkloadOptions, CountTokens], SessionGenerator]] = {
    "agent": agent,
    "repeat": repeat,
    "random": random_lengths,
    "text": prose,
}
