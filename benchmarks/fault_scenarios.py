"""Traffic that brings out each planted fault, and traffic beside its trigger that must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.fault_traffic import (
    Player,
    aborted,
    answers_in_turn,
    beside_decode,
    churn,
    cold,
    evicted,
    fill_alone,
    fill_together,
    fork,
    freed_slot,
    like_tails,
    long_then_other,
    many_snapshots,
    next_tenant,
    not_aborted,
    over_chunk,
    preempted,
    preempted_with_cache,
    resend,
    thrice,
    together,
    twins,
    two_salts,
)
from harness.reference.config import ModelConfig
from harness.reference.options import EngineOptions

Changes = dict[str, object]


def plain(options: EngineOptions, config: ModelConfig) -> Changes:
    """Nothing beside the common options."""
    return {}


@dataclass(frozen=True)
class Scenario:
    """What is sent, and the options it needs beside the common ones."""

    play: Callable[[Player], None]
    options: Callable[[EngineOptions, ModelConfig], Changes] = plain

    def settings(self, base: EngineOptions, config: ModelConfig) -> EngineOptions:
        """The options of the engine it is played on."""
        return replace(base, **self.options(base, config))


def speculating(options: EngineOptions, config: ModelConfig) -> Changes:
    """Three drafts a step."""
    return {"speculative_tokens": 3}


def small_memory(options: EngineOptions, config: ModelConfig) -> Changes:
    """Memory for little more than one sequence of the longest length."""
    longest = 24 * options.block_size
    sequence = config.state_bytes + 26 * options.block_size * config.latent_bytes
    return {"max_model_len": longest, "cache_bytes": sequence + 2 * config.state_bytes}


def host_tier(options: EngineOptions, config: ModelConfig) -> Changes:
    """The same with a host tier that holds everything."""
    return {**small_memory(options, config), "host_bytes": 256 << 20}


def joined(*parts: Callable[[EngineOptions, ModelConfig], Changes]) -> Callable[[EngineOptions, ModelConfig], Changes]:
    """Several changes together."""

    def options(base: EngineOptions, config: ModelConfig) -> Changes:
        return {name: value for part in parts for name, value in part(base, config).items()}

    return options


def fixed(**changes: object) -> Callable[[EngineOptions, ModelConfig], Changes]:
    """Changes that depend on nothing."""
    return lambda options, config: dict(changes)


SPECULATING_BESIDE = joined(speculating, fixed(policy="fork"))

SCENARIOS: dict[str, Scenario] = {
    "cold": Scenario(cold),
    "resend": Scenario(resend(5)),
    "resend, tail 1": Scenario(resend(1)),
    "resend, exact": Scenario(resend(0)),
    "resend, even block": Scenario(resend(5, blocks=8)),
    "resend, three times, tail 1": Scenario(thrice(1)),
    "resend, three times, tail 5": Scenario(thrice(5)),
    "resend after others": Scenario(many_snapshots),
    "fork": Scenario(fork),
    "filled together": Scenario(fill_together),
    "filled alone": Scenario(fill_alone),
    "over a chunk": Scenario(over_chunk(5, blocks=1)),
    "over a chunk by one": Scenario(over_chunk(1)),
    "whole grid": Scenario(over_chunk(0), fixed(chunk=64)),
    "next tenant": Scenario(next_tenant),
    "four together": Scenario(together(4)),
    "three together": Scenario(together(3)),
    "three together, all slots": Scenario(together(3), fixed(slots=3)),
    "two together": Scenario(together(2)),
    "eight together": Scenario(together(8), fixed(slots=8)),
    "preempted": Scenario(preempted),
    "preempted, cached": Scenario(preempted_with_cache),
    "aborted": Scenario(aborted),
    "not aborted": Scenario(not_aborted),
    "freed slot": Scenario(freed_slot),
    "churn": Scenario(churn),
    "churn, speculating": Scenario(churn, speculating),
    "two together, speculating": Scenario(together(2), speculating),
    "long, then other": Scenario(long_then_other),
    "in turn": Scenario(answers_in_turn(4)),
    "in turn, speculating": Scenario(answers_in_turn(4), speculating),
    "in turn, sampled": Scenario(answers_in_turn(4, temperature=1.0), speculating),
    "together, sampled": Scenario(together(4, temperature=1.0), speculating),
    "resend, speculating": Scenario(resend(5), speculating),
    "beside decode": Scenario(beside_decode, SPECULATING_BESIDE),
    "beside decode, no drafts": Scenario(beside_decode, fixed(policy="fork")),
    "twins": Scenario(twins),
    "two salts": Scenario(two_salts),
    "like tails": Scenario(like_tails),
    "evicted": Scenario(evicted, small_memory),
    "back from host": Scenario(evicted, host_tier),
    "back from host, speculating": Scenario(evicted, joined(speculating, host_tier)),
}


@dataclass(frozen=True)
class Proof:
    """Where a fault's mode shows, where it must not, and parameters that suit short prompts."""

    trigger: str
    control: str
    parameters: str = ""


PROOFS: dict[tuple[str, str], Proof] = {
    ("K01", "skip"): Proof("resend", "next tenant"),
    ("K01", "cleared"): Proof("resend", "next tenant"),
    ("K01", "multitoken"): Proof("resend", "resend, tail 1"),
    ("K02", "zero"): Proof("resend", "next tenant"),
    ("K02", "random"): Proof("resend", "next tenant"),
    ("K02", "previous"): Proof("resend after others", "next tenant"),
    ("K03", "early"): Proof("resend", "next tenant"),
    ("K03", "late"): Proof("resend", "next tenant"),
    ("K03", "units"): Proof("resend", "resend, even block"),
    ("K03", "packed"): Proof("filled together", "filled alone"),
    ("K04", "full"): Proof("resend, exact", "resend"),
    ("K05", "zero"): Proof("resend", "next tenant"),
    ("K05", "stale"): Proof("resend", "next tenant"),
    ("K05", "write"): Proof("resend, three times, tail 1", "resend, three times, tail 5"),
    ("K06", "view"): Proof("resend", "next tenant"),
    ("K07", "cast"): Proof("resend", "next tenant"),
    ("K07", "unaligned"): Proof("resend", "resend, even block"),
    ("K07", "fp8"): Proof("resend", "next tenant"),
    ("K07", "reinterpret"): Proof("resend", "next tenant"),
    ("K08", "layer"): Proof("resend", "next tenant"),
    ("K08", "rank"): Proof("resend", "next tenant"),
    ("K08", "sidecar"): Proof("resend", "next tenant"),
    ("K08", "crossed"): Proof("resend", "next tenant"),
    ("K09", "double"): Proof("resend", "next tenant"),
    ("K09", "mtp"): Proof("resend, speculating", "resend"),
    ("K09", "gap"): Proof("fork", "resend"),
    ("K10", "transposed"): Proof("over a chunk", "filled alone"),
    ("K10", "padding"): Proof("over a chunk", "whole grid"),
    ("K10", "decay"): Proof("over a chunk", "filled alone"),
    ("K10", "single"): Proof("over a chunk by one", "over a chunk"),
    ("K11", "unzeroed"): Proof("next tenant", "resend"),
    ("K12", "modulo"): Proof("four together", "two together"),
    ("K13", "preempt"): Proof("preempted", "next tenant"),
    ("K13", "rewind"): Proof("resend", "fork"),
    ("K14", "slot"): Proof("aborted", "not aborted"),
    ("K14", "block"): Proof("aborted", "not aborted"),
    ("K15", "first"): Proof("three together", "two together"),
    ("K15", "last"): Proof("three together, all slots", "two together"),
    ("K15", "parked"): Proof("freed slot", "two together"),
    ("K17", "counts"): Proof("churn, speculating", "two together, speculating"),
    ("K17", "states"): Proof("churn", "two together"),
    ("K18", "skip"): Proof("eight together", "four together"),
    ("K19", "snapshot"): Proof("resend", "filled alone", "tokens=50"),
    ("K19", "slot"): Proof("long, then other", "filled alone", "tokens=50"),
    ("K20", "keep"): Proof("in turn, speculating", "in turn"),
    ("K21", "early"): Proof("in turn, speculating", "in turn"),
    ("K21", "late"): Proof("in turn, speculating", "in turn"),
    ("K21", "uncommitted"): Proof("in turn, speculating", "in turn"),
    ("K21", "column"): Proof("in turn, speculating", "in turn"),
    ("K21", "crossing"): Proof("in turn, speculating", "in turn"),
    ("K22", "shifted"): Proof("in turn, speculating", "in turn"),
    ("K22", "mixed"): Proof("in turn, speculating", "in turn"),
    ("K23", "before"): Proof("beside decode", "beside decode, no drafts"),
    ("K23", "after"): Proof("beside decode", "beside decode, no drafts"),
    ("K24", "hit"): Proof("resend, speculating", "in turn, speculating"),
    ("K24", "tier"): Proof("back from host, speculating", "resend, speculating"),
    ("K24", "partial"): Proof("in turn, speculating", "in turn"),
    ("K24", "deep"): Proof("in turn, speculating", "in turn"),
    ("K24", "norm"): Proof("in turn, speculating", "in turn"),
    ("K25", "threshold"): Proof("in turn, sampled", "in turn, speculating"),
    ("K25", "row"): Proof("together, sampled", "in turn, sampled"),
    ("K25", "exact"): Proof("in turn, sampled", "in turn, speculating"),
    ("K27", "parent"): Proof("twins", "resend"),
    ("K27", "tail"): Proof("like tails", "resend"),
    ("K28", "mapped"): Proof("evicted", "resend"),
    ("K29", "stale"): Proof("back from host", "resend"),
    ("K29", "partial"): Proof("back from host", "resend"),
    ("K29", "swap"): Proof("back from host", "resend"),
}
"""The faults that change answers or drafts; accounting and speed are told apart by counts."""
