"""What each rank of the server restored, where its counters tell ranks apart.

A replica has a cache of its own and serves some of the returns; its shards hold each of them between them, so that all
of them have to restore the same tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.checks.history import CheckHistory
from harness.checks.tiers.facts import COUNTER, is_return, samples_around
from harness.stats.ranks import Rank, at_rank, ranks_in

PROMPTS = "prompt_tokens"
FEWEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCount:
    """prompt_tokens, tier_tokens: what it counted from the first reading to the last. served: returns around which it
    counted prompt tokens. restored: those of them around which it counted tokens from behind the device.
    """

    rank: Rank
    prompt_tokens: int
    tier_tokens: int
    served: int
    restored: int


def count_ranks(history: CheckHistory) -> list[RankCount]:
    """Every rank that computed anything, in the order of their names; empty where nobody tells ranks apart.

    A rank whose labels are there and whose counters stand still does not report, and is left out.
    """
    if not history.counters:
        return []
    first, last = history.counters[0].values, history.counters[-1].values
    moves = _moves(history)
    found = []
    for rank in ranks_in(last, COUNTER):
        prompts, tiers = (_moved(first, last, name, rank) for name in (PROMPTS, COUNTER))
        if prompts > 0 and tiers >= 0:
            served = [_moved(*around, COUNTER, rank) for around in moves if _moved(*around, PROMPTS, rank) > 0]
            restored = sum(moved > 0 for moved in served)
            found.append(
                RankCount(rank=rank, prompt_tokens=prompts, tier_tokens=tiers, served=len(served), restored=restored)
            )
    return found


def _moves(history: CheckHistory) -> list[tuple[Mapping[str, float], Mapping[str, float]]]:
    """The counters before and after every return that they were read around."""
    names = [name for name in history.counters[-1].values if name.startswith(f"{COUNTER}@")]
    around = [samples_around(history, answer, names[0]) for answer in history.answers if names and is_return(answer)]
    return [(pair[0].values, pair[1].values) for pair in around if pair is not None]


def _moved(before: Mapping[str, float], after: Mapping[str, float], meaning: str, rank: Rank) -> int:
    """A counter that is not there yet stands at 0."""
    name = at_rank(meaning, rank)
    return round(after.get(name, 0.0) - before.get(name, 0.0))


def shards_apart(counts: Sequence[RankCount], slack: int) -> str | None:
    """Shards of one replica that differ by more than `slack` tokens, in words; None if none do."""
    for _, group in groupby(counts, key=lambda count: count.rank.replica):
        shards = sorted(group, key=lambda count: count.tier_tokens)
        if shards[-1].tier_tokens - shards[0].tier_tokens > slack:
            least, most = shards[0], shards[-1]
            return (
                f"ranks that hold a request between them do not restore the same: {least.rank} counts"
                f" {least.tier_tokens:,} tokens from behind the device, {most.rank} {most.tier_tokens:,}"
            )
    return None


def idle_replica(counts: Sequence[RankCount]) -> str | None:
    """A replica that restored none of its returns while another restores, in words; None if there is none."""
    if not any(count.restored >= FEWEST for count in counts):
        return None
    idle = next((count for count in counts if count.served >= FEWEST and not count.restored), None)
    if idle is None:
        return None
    return (
        f"{idle.rank} restored none of the {idle.served} returns it served, others did: its tier does not work, or the"
        " prompts had been filled on another rank"
    )


def told_of(counts: Sequence[RankCount], engine: str | None) -> str:
    """What is known of single ranks, in words."""
    if not counts:
        return "ranks are not told apart"
    if len(counts) > 1:
        replicas = len({count.rank.replica for count in counts})
        return f"{len(counts)} ranks are told apart" + (f", {replicas} with a cache each" if replicas > 1 else "")
    flag = " (each with --enable-metrics-for-all-schedulers)" if engine == "sglang" else ""
    return f"told of one rank, {counts[0].rank}{flag}"
