"""What texts alone show: how soon answers part, codes that were lost, and codes that belong to another prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.checks.eviction.arms import (
    AGAIN,
    DECODED,
    FAR,
    FORKED,
    HIT,
    REFILLED,
    RETURNED,
    SENTINEL,
    TOGETHER,
    TRAFFIC_COLD,
    VIRGIN,
    PromptArms,
    Shot,
)
from harness.stats.tests import discordant_greater, hazard_ratio_greater, rate_seen

RATIO = 3.0
_DIGITS = re.compile(r"\d+")
_ARMS = (HIT, RETURNED, REFILLED, DECODED, TOGETHER, FORKED, AGAIN, SENTINEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """How often the texts of one arm part from the cold one's, and after how much text, against its controls.

    answers: compared; length: characters of one of them that could be compared at most.
    """

    arm: str
    answers: int
    length: float
    events: int
    exposure: int
    null_events: int
    null_exposure: int
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCodes:
    """Prompts whose own code the cold answer gave and the arm's did not, and the other way round."""

    arm: str
    lost: tuple[str, ...]
    found: tuple[str, ...]
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCode:
    """An answer with the code of another prompt."""

    prompt: str
    owner: str
    code: str
    request_id: str
    arm: str


def foreign_codes(prompts: Sequence[PromptArms]) -> tuple[ForeignCode, ...]:
    """Every answer that holds another prompt's code as a whole number."""
    owners = {prompt.code: prompt.prompt for prompt in prompts if prompt.code is not None}
    return tuple(
        ForeignCode(prompt=prompt.prompt, owner=owners[code], code=code, request_id=shot.request_id, arm=shot.arm)
        for prompt in prompts
        for shots in prompt.shots.values()
        for shot in shots
        for code in dict.fromkeys(_DIGITS.findall(shot.text))
        if code in owners and code != prompt.code
    )


def lost_codes(prompts: Sequence[PromptArms]) -> tuple[LostCodes, ...]:
    """McNemar's test of each arm against the cold answers of the same prompts."""
    found = []
    for arm in _ARMS:
        worse: list[str] = []
        better: list[str] = []
        for prompt in prompts:
            cold, shots = prompt.of(VIRGIN), prompt.of(arm)
            if not prompt.needle or prompt.code is None or not cold or not shots:
                continue
            before, after = prompt.code in cold[0].text, all(prompt.code in shot.text for shot in shots)
            if before != after:
                (worse if before else better).append(prompt.prompt)
        p_value = discordant_greater(len(worse), len(better))
        found.append(LostCodes(arm=arm, lost=tuple(worse), found=tuple(better), p_value=p_value))
    return tuple(found)


def partings(prompts: Sequence[PromptArms]) -> tuple[Parting, ...]:
    """First-divergence hazard of each arm against that of the controls; exposure is counted in characters.

    Controls are repeats of cold answers and of hits, cold answers under traffic, and hits resumed far away.
    """
    controls = [pair for prompt in prompts for pair in _controls(prompt)]
    null_events, null_exposure = _count(controls)
    found = []
    for arm in _ARMS:
        pairs = [(shot, prompt.of(VIRGIN)[0]) for prompt in prompts if prompt.of(VIRGIN) for shot in prompt.of(arm)]
        events, exposure = _count(pairs)
        p_value = hazard_ratio_greater(events, exposure, null_events, null_exposure, RATIO)
        found.append(
            Parting(
                arm=arm,
                answers=len(pairs),
                length=_length(pairs),
                events=events,
                exposure=exposure,
                null_events=null_events,
                null_exposure=null_exposure,
                p_value=p_value,
            )
        )
    return tuple(found)


def smallest_share(parting: Parting, level: float) -> float:
    """Share of an arm's answers that a fault must change to be found at `level` with probability 0.99; 1.0 if none is.

    A changed answer is taken to part after a quarter of its text.
    """
    for changed in range(1, parting.answers + 1):
        exposure = parting.length * (parting.answers - changed + changed / 4)
        if hazard_ratio_greater(changed, exposure, parting.null_events, parting.null_exposure, RATIO) <= level:
            return rate_seen(changed, parting.answers)
    return 1.0


def _length(pairs: Sequence[tuple[Shot, Shot]]) -> float:
    return sum(min(len(one.text), len(other.text)) for one, other in pairs) / len(pairs) if pairs else 0.0


def _controls(prompt: PromptArms) -> Iterable[tuple[Shot, Shot]]:
    yield from combinations(prompt.of(VIRGIN), 2)
    yield from combinations(prompt.of(HIT), 2)
    for arm in (TRAFFIC_COLD, FAR):
        yield from ((shot, cold) for shot in prompt.of(arm) for cold in prompt.of(VIRGIN)[:1])


def _count(pairs: Iterable[tuple[Shot, Shot]]) -> tuple[int, int]:
    """Pairs that part, and characters compared until they do, the parting one included."""
    events = exposure = 0
    for one, other in pairs:
        shared = next((i for i, (a, b) in enumerate(zip(one.text, other.text, strict=False)) if a != b), None)
        events += shared is not None
        exposure += min(len(one.text), len(other.text)) if shared is None else shared + 1
    return events, exposure
