"""What single ranks restored, on histories written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from harness.checks.history import CheckHistory
from harness.checks.tiers.judge import judge
from harness.checks.tiers.ranks import count_ranks
from harness.checks.verdict import Status
from harness.records import CounterSample
from harness.stats.ranks import Rank, at_rank, ranks_in
from tests.checks.tiers.test_judge import PROMPTS, history

FIRST, SECOND = Rank(replica="", shard="tp_rank=0"), Rank(replica="", shard="tp_rank=1")
ONE, OTHER = Rank(replica="engine=0", shard=""), Rank(replica="engine=1", shard="")
# Prompt tokens and tokens from behind the device that one return adds on each rank.
Added = Callable[[int, Rank], tuple[int, int]]


def told(ranks: tuple[Rank, ...], added: Added) -> CheckHistory:
    """A sound history in which every return is followed by a reading of all ranks."""
    made = history(tiers={"device": 0, "host": 128})
    values: Mapping[str, float] = {
        at_rank(name, rank): 0.0 for name in ("prompt_tokens", "tier_tokens") for rank in ranks
    }
    samples = [CounterSample(at_ns=0, values=values)]
    returns = [each for each in made.answers if each.record.invoke.arm in ("returned", "returned-again")]
    for number, answer in enumerate(returns):
        moved = dict(samples[-1].values)
        for rank in ranks:
            for name, more in zip(("prompt_tokens", "tier_tokens"), added(number, rank), strict=True):
                moved[at_rank(name, rank)] += more
        end_ns = answer.record.complete.end_ns
        assert end_ns is not None
        samples.append(CounterSample(at_ns=end_ns + 1, values=moved))
    return replace(made, counters=tuple(samples))


def in_turn(number: int, rank: Rank) -> tuple[int, int]:
    return (200, 128) if (number % 2 == 0) is (rank == ONE) else (0, 0)


def test_names_of_ranks_come_back_as_they_were() -> None:
    page = Rank(replica="page=http://a:1|b/metrics,engine=0", shard="tp_rank=1")
    names = [at_rank("tier_tokens", page), at_rank("prompt_tokens", page), "tier_tokens"]
    assert ranks_in(names, "tier_tokens") == [page]


def test_ranks_that_restore_alike_pass_and_are_named() -> None:
    verdict = judge(told((FIRST, SECOND), lambda number, rank: (200, 128)))
    assert verdict.status is Status.PASS, verdict.reason
    assert "2 ranks are told apart" in verdict.reason
    counted = {"tier_tokens": 2 * PROMPTS * 128, "returns": 2 * PROMPTS, "restored": 2 * PROMPTS}
    assert verdict.details["ranks"] == {"tp_rank=0": counted, "tp_rank=1": counted}


def test_a_rank_that_restores_less_than_its_peers_is_suspect() -> None:
    verdict = judge(told((FIRST, SECOND), lambda number, rank: (200, 128 if rank == FIRST else 64)))
    assert verdict.status is Status.SUSPECT
    assert "tp_rank=1 counts 1,536 tokens from behind the device, tp_rank=0 3,072" in verdict.reason


def test_a_rank_one_return_behind_is_let_go() -> None:
    def late(number: int, rank: Rank) -> tuple[int, int]:
        return (200, 128 if rank == FIRST or number else 0)

    assert judge(told((FIRST, SECOND), late)).status is Status.PASS


def test_replicas_share_the_returns_between_them() -> None:
    counts = count_ranks(told((ONE, OTHER), in_turn))
    assert [(count.served, count.restored) for count in counts] == [(PROMPTS, PROMPTS)] * 2
    verdict = judge(told((ONE, OTHER), in_turn))
    assert verdict.status is Status.PASS, verdict.reason
    assert "2 with a cache each" in verdict.reason


def test_a_replica_that_restores_nothing_is_undecided_and_named() -> None:
    verdict = judge(told((ONE, OTHER), lambda number, rank: (in_turn(number, rank)[0], 128 * (rank == ONE))))
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reason.startswith("engine=1 restored none of the 12 returns")


def test_a_rank_that_stands_still_does_not_report() -> None:
    verdict = judge(told((FIRST, SECOND), lambda number, rank: (200, 128) if rank == FIRST else (0, 0)))
    assert verdict.status is Status.PASS
    assert "told of one rank, tp_rank=0 (each with --enable-metrics-for-all-schedulers)" in verdict.reason


def test_where_nobody_tells_ranks_apart_the_verdict_says_so() -> None:
    verdict = judge(history(counted=128))
    assert verdict.status is Status.PASS
    assert "ranks are not told apart" in verdict.reason and verdict.details["ranks"] == {}
