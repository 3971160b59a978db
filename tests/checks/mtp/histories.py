"""Hand-written histories: every text cold and as a hit, three drafts a step, counters read around each request."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.records import Complete, CounterSample, Invoke, Outcome, Record, Usage
from workloads.mtp import COLD, CONTENTS, HIT, WATCHED
from workloads.plan import Json, Phase

DEPTH = 3
STEPS = 20
GAP_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One answer to be: by_depth counts its steps by accepted drafts. Fields not None replace what follows from it."""

    content: str
    index: int
    arm: str
    by_depth: tuple[int, ...]
    cached: int | None = 0
    cell: str = "mtp-r0"
    reported: Mapping[str, Json] | None = None
    counted: tuple[int, int] | None = None
    tokens: int | None = None
    events: tuple[int, ...] | None = None
    prompts_of: str = "this run"

    @property
    def steps(self) -> int:
        return sum(self.by_depth)

    @property
    def accepted(self) -> int:
        return sum(number * count for number, count in enumerate(self.by_depth))

    @property
    def completion(self) -> int:
        return 1 + self.steps + self.accepted if self.tokens is None else self.tokens


Change = Callable[[Shot], Shot]


def unchanged(shot: Shot) -> Shot:
    return shot


def shots(prompts: int = 4, change: Change = unchanged, *, cell: str = "mtp-r0", seed: int = 1) -> list[Shot]:
    """Classes of growing acceptance; a hit accepts exactly what the cold answer did."""
    rng, found = random.Random(seed), []
    for index in range(prompts):
        for rank, content in enumerate(CONTENTS):
            kept = [sum(rng.random() < 0.3 + 0.1 * rank for _ in range(DEPTH)) for _ in range(STEPS)]
            by_depth = tuple(kept.count(number) for number in range(DEPTH + 1))
            for arm, cached in ((COLD, 0), (HIT, 64)):
                shot = Shot(content=content, index=index, arm=arm, by_depth=by_depth, cached=cached, cell=cell)
                found.append(change(shot))
    return found


def history(asked: Sequence[Shot], *, counters: bool = True, fields: bool = True, **more: Any) -> CheckHistory:
    """counters, fields: whether the server has them."""
    answers, samples = [], [_sample(-1, (0, 0, 0))]
    total = (0, 0, 0)
    for number, shot in enumerate(asked):
        answers.append(_answer(number, shot, fields))
        steps, accepted = (shot.steps, shot.accepted) if shot.counted is None else shot.counted
        total = (total[0] + steps, total[1] + accepted, total[2] + shot.completion)
        samples.append(_sample(number * GAP_NS + GAP_NS // 2, total))
    speculation = more.pop("speculation", True)
    return CheckHistory(
        answers=tuple(answers),
        counters=tuple(samples) if counters else (),
        capabilities=Capabilities(engine=more.pop("engine", "vllm"), speculation=speculation),
        **more,
    )


def _sample(at_ns: int, totals: tuple[int, int, int]) -> CounterSample:
    names = ("spec_drafts", "spec_accepted", "generation_tokens")
    return CounterSample(at_ns=at_ns, values={name: float(value) for name, value in zip(names, totals, strict=True)})


def _answer(number: int, shot: Shot, fields: bool) -> Answer:
    pair = f"r0/{shot.content}{shot.index}"
    invoke = Invoke(
        request_id=f"q{number}", cell=shot.cell, step="ask", key=f"{pair}/{shot.arm}", planned_ns=0,
        phase=Phase.MEASURE, session=pair, arm=shot.arm, prompt_hash=f"{shot.prompts_of}/{pair}",
        labels={"content": shot.content, "arm": shot.arm, "pair": pair},
    )  # fmt: skip
    own: dict[str, Json] = {
        "num_spec_steps": shot.steps,
        "num_accepted_draft_tokens": shot.accepted,
        "num_draft_tokens": DEPTH * shot.steps,
        "num_spec_tokens": DEPTH,
        "acceptance_histogram": list(shot.by_depth),
    }
    if shot.reported is not None:
        own |= shot.reported
    done = Complete(
        request_id=f"q{number}",
        outcome=Outcome.OK,
        sent_ns=number * GAP_NS,
        end_ns=number * GAP_NS + GAP_NS // 4,
        usage=Usage(prompt_tokens=192, completion_tokens=shot.completion, cached_tokens=shot.cached),
        event_tokens=shot.events,
        extra={"metrics": {"speculative_decoding": own}} if fields else {},
    )
    return Answer(record=Record(invoke=invoke, complete=done))


def halved_on(arm: str) -> Change:
    """Half of the accepting steps of an arm accept nothing."""

    def change(shot: Shot) -> Shot:
        if shot.arm != arm:
            return shot
        none, *some = shot.by_depth
        lost = [count // 2 for count in some]
        return replace(shot, by_depth=(none + sum(lost), *(c - gone for c, gone in zip(some, lost, strict=True))))

    return change


def watched(looks: Sequence[tuple[int, int]]) -> tuple[Answer, list[CounterSample]]:
    """A long answer with counters read while it came: (steps, tokens) at each look; the last is after its end."""
    answer = _answer(0, Shot(content="prose", index=0, arm=WATCHED, by_depth=(looks[-1][0], 0, 0, 0)), False)
    done = replace(answer.record.complete, sent_ns=0, end_ns=(len(looks) - 1) * GAP_NS)
    samples = [_sample(-1, (0, 0, 0))]
    samples += [_sample(number * GAP_NS + 1, (steps, 0, tokens)) for number, (steps, tokens) in enumerate(looks)]
    return replace(answer, record=replace(answer.record, complete=done)), samples
