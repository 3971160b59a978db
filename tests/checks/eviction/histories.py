"""Hand-written histories of the eviction check: every answer is a row of log-probabilities made up on the spot."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.records import Complete, ErrorKind, Invoke, Outcome, Record, RequestError, TokenLogprob, Usage
from workloads.plan import Json, Phase

LENGTH, CACHED, FAR = 705, 704, 192
TOKENS = "abcdefghijklmnopqrstuvwxyz"
COLD_NS, WARM_NS = 80_000_000, 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One answer to be: `shift` is added to its log-probabilities as noise of that RMS, seeded by prompt and `seed`."""

    arm: str
    number: int
    cached: int | None
    shift: float = 0.0
    seed: str = "x"
    text: str = "the same text"
    logprobs: bool = True
    quick: bool | None = None
    failed: bool = False


HEALTHY = (
    Shot(arm="virgin", number=0, cached=0),
    Shot(arm="virgin", number=1, cached=0),
    Shot(arm="cotraffic-cold", number=0, cached=0),
    Shot(arm="far", number=0, cached=FAR),
    Shot(arm="hit", number=0, cached=CACHED),
    Shot(arm="hit", number=1, cached=CACHED),
    Shot(arm="cotraffic-hit", number=0, cached=CACHED),
    Shot(arm="returned", number=0, cached=0),
    Shot(arm="refilled", number=0, cached=CACHED),
)
STEPPED = Shot(arm="stepped", number=0, cached=0)
Change = Callable[[int, Shot], Shot]


def history(
    prompts: int = 32,
    change: Change = lambda index, shot: shot,
    *,
    fresh: int = 0,
    fresh_change: Change | None = None,
    capabilities: Capabilities | None = None,
    labels: Callable[[int], dict[str, Json]] = lambda index: {},
    shots: Iterable[Shot] = HEALTHY,
) -> CheckHistory:
    """`prompts` of a first round and `fresh` of a second; odd fresh ones have long tails. `change` alters each shot."""
    shots, again = tuple(shots), fresh_change if fresh_change is not None else change
    answers = [
        _answer(f"r0/p{index:03d}", change(index, shot), {"round": 0, **labels(index)}, tail=1)
        for index in range(prompts)
        for shot in shots
    ]
    answers += [
        _answer(f"r1/p{index:03d}", again(index, shot), {"round": 1, **labels(index)}, tail=48 if index % 2 else 1)
        for index in range(fresh)
        for shot in shots
    ]
    return CheckHistory(
        answers=tuple(answers),
        capabilities=capabilities if capabilities is not None else Capabilities(cached_tokens=True, logprobs=20),
        rounds=2 if fresh else 1,
    )


def shifted(arms: Iterable[str], nats: float, *, seed: str = "fault", every: int = 1) -> Change:
    """Shift some arms of every so many prompts."""
    chosen = frozenset(arms)

    def change(index: int, shot: Shot) -> Shot:
        return replace(shot, shift=nats, seed=seed) if shot.arm in chosen and index % every == 0 else shot

    return change


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(index: int, shot: Shot) -> Shot:
        for one in changes:
            shot = one(index, shot)
        return shot

    return change


def _answer(prompt: str, shot: Shot, labels: dict[str, Json], *, tail: int) -> Answer:
    quick = shot.quick if shot.quick is not None else bool(shot.cached)
    key = f"{prompt}/{shot.arm}/{shot.number}"
    invoke = Invoke(
        request_id=key,
        cell=f"eviction-r{labels['round']}",
        step="ask",
        key=key,
        planned_ns=0,
        phase=Phase.MEASURE,
        session=prompt,
        arm=shot.arm,
        labels=labels,
    )
    usage = Usage(prompt_tokens=LENGTH + tail - 1, completion_tokens=16, cached_tokens=shot.cached)
    error = RequestError(kind=ErrorKind.DISCONNECTED, message="gone") if shot.failed else None
    complete = Complete(
        request_id=key,
        outcome=Outcome.UNKNOWN if shot.failed else Outcome.OK,
        error=error,
        sent_ns=0,
        first_token_ns=WARM_NS if quick else COLD_NS,
        usage=usage,
        text=shot.text,
    )
    logprobs = None if not shot.logprobs or shot.failed else _positions(prompt, shot)
    return Answer(record=Record(invoke=invoke, complete=complete), logprobs=logprobs)


def _positions(prompt: str, shot: Shot) -> tuple[TokenLogprob, ...]:
    base = -np.sort(np.random.default_rng(_seed(prompt)).uniform(0.1, 9.0, (16, len(TOKENS))), axis=1)
    noise = np.random.default_rng(_seed(prompt + shot.seed)).standard_normal(base.shape) * shot.shift
    found = []
    for row, extra in zip(base, noise, strict=True):
        values = row + extra
        order = np.argsort(-values, kind="stable")[:20]
        top = tuple((TOKENS[i], float(values[i])) for i in order)
        found.append(TokenLogprob(token=top[0][0], logprob=top[0][1], top=top))
    if shot.arm == "stepped":
        return (TokenLogprob(token="!", logprob=0.0, top=()), *found)
    return tuple(found)


def _seed(text: str) -> int:
    return zlib.crc32(text.encode())
