"""The workloads by the names the command line takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from workloads.agent import agent
from workloads.boundary import BoundaryFamily
from workloads.classes import ClassesFamily
from workloads.fork import ForkFamily
from workloads.needle import NeedleFamily
from workloads.options import WorkloadOptions
from workloads.prose import prose
from workloads.repeat import repeat
from workloads.sessions import SessionFamily, SessionGenerator
from workloads.text import CountTokens
from workloads.uniform import random_lengths

MakeFamily = Callable[[WorkloadOptions, CountTokens], SessionFamily]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadEntry:
    """A workload: how its sessions are made, and what it asks, in a line. exact: it takes a ruler."""

    make: MakeFamily
    summary: str
    exact: bool = False


FAMILIES: dict[str, WorkloadEntry] = {
    "agent": WorkloadEntry(
        make=agent, summary="growing transcripts of tool calls and results, as coding agents send them"
    ),
    "repeat": WorkloadEntry(
        make=repeat, summary="one long prompt again and again, and its prefix with other tails", exact=True
    ),
    "fork": WorkloadEntry(
        make=ForkFamily, summary="a long prefix that four requests continue, each in its own way", exact=True
    ),
    "boundary": WorkloadEntry(
        make=BoundaryFamily, summary="lengths one short of a block boundary, on it and past it, each twice", exact=True
    ),
    "classes": WorkloadEntry(
        make=ClassesFamily, summary="contents from hard to easy to draft: identifiers to refrains"
    ),
    "needle": WorkloadEntry(make=NeedleFamily, summary="a number told in a long text and asked for at its end"),
    "random": WorkloadEntry(make=random_lengths, summary="prompts of one length that share nothing", exact=True),
    "text": WorkloadEntry(make=prose, summary="questions on passages of many lengths"),
}


EXACT = tuple(name for name, entry in FAMILIES.items() if entry.exact)
NOT_EXACT = "its prompts are made of whole texts or of many messages, whose overhead only the server's template knows"


def session_family(name: str, options: WorkloadOptions, count: CountTokens) -> SessionFamily:
    """The sessions of one workload; ValueError on options that make no sense for it."""
    if options.ruler is not None:
        refuse_exact_lengths(name)
    return FAMILIES[name].make(options, count)


def refuse_exact_lengths(name: str) -> None:
    """Raise ValueError, with the reason, if prompts of a workload cannot have exact lengths."""
    if name in FAMILIES and not FAMILIES[name].exact:
        raise ValueError(
            f"the {name} workload has no exact lengths: {NOT_EXACT}; {', '.join(EXACT)} have them, and lengths of"
            f" {name} can be aimed at with --context"
        )


def session_generator(name: str, options: WorkloadOptions, count: CountTokens) -> SessionGenerator:
    """The plan of one workload; ValueError on options that make no sense for it."""
    return SessionGenerator(session_family(name, options, count), options, count)


WORKLOADS: dict[str, Callable[[WorkloadOptions, CountTokens], SessionGenerator]] = {
    name: partial(session_generator, name) for name in FAMILIES
}
