"""Pairs of answers to one prompt, each with the noise it is measured against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from harness.checks.eviction.arms import (
    AGAIN,
    DECODED,
    FAR,
    HIT,
    JUDGED,
    PARTIAL,
    RETURNED,
    SHORT,
    STEPPED,
    TRAFFIC_COLD,
    TRAFFIC_HIT,
    VIRGIN,
    PromptArms,
    Shot,
)
from harness.stats.gaps import first_flip, mean_gap, squared_gaps

FIRST = 4
SHORT_TAIL = 32
REACH_TOKENS = 256
"""A far resume that computes less than this says nothing of how a long computation is cut in chunks."""
LONG = ", long tail"
SHAPED = ", same shape"


class Path(StrEnum):
    """CROSS: the two answers were computed along different paths, and may differ by a harmless offset.

    SHAPED: so they were, but the cold one was computed in the pieces of the hit, so that no kernel chosen by the length
    of a piece tells them apart. REACH: both ends of a control, a far resume and a cold answer, are held against what
    hits differ by. SAME: by the same path. PLACEBO: the same path, and nothing in between that could have
    gone wrong.
    """

    CROSS = "cross"
    SHAPED = "shaped"
    REACH = "reach"
    SAME = "same"
    PLACEBO = "placebo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One arm against its reference on one prompt; gaps are mean squared differences in nats².

    near / near_first: over the first 16 / 4 positions, averaged over replicates. null / null_first: the largest of the
    prompt's own noise. floor: the same without the far control; both None where nothing measured it. flip: the gap in
    nats of a changed token that every replicate shows, None if there is none; null_flip: the largest among the controls
    of the floor.
    proxy: the null comes from hits, for lack of a second cold answer. Families of hits that resumed more than 32 tokens
    before the answer are named so, and those whose cold answer has the hit's shape.
    """

    family: str
    path: Path
    prompt: str
    round_index: int
    near: float
    near_first: float
    null: float | None
    null_first: float | None
    floor: float | None
    flip: float | None
    null_flip: float
    proxy: bool
    distance: int | None
    request_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """Two answers compared."""

    whole: float
    first: float
    flip: float | None


def pairs_of(arms: PromptArms) -> tuple[Pair, ...]:
    """Every pair this prompt offers; none without a first cold answer that lists log-probabilities."""
    if len(shorts := [shot for shot in arms.of(SHORT) if shot.warm is not True]) > 1:
        return tuple(pair for pair in [_short_pair(arms, shorts)] if pair is not None)
    virgins = [shot for shot in arms.of(VIRGIN) if shot.warm is not True and shot.logprobs]
    if not virgins:
        return ()
    found = [*_judged_pairs(arms, virgins), _far_pair(arms, virgins), _placebo(arms, virgins)]
    return tuple(pair for pair in found if pair is not None)


def _judged_pairs(arms: PromptArms, virgins: Sequence[Shot]) -> Iterable[Pair | None]:
    hits = [shot for shot in arms.of(HIT) if shot.warm]
    fars = [shot for shot in arms.of(FAR) if shot.warm]
    for arm in JUDGED:
        shots = arms.of(arm)
        cold = [shot for shot in shots if shot.warm is False]
        warm = [shot for shot in shots if shot.warm and (arm != DECODED or _resumes_as(shot, hits))]
        if arm in (RETURNED, AGAIN, PARTIAL) and cold:
            yield _cold_pair(arms, arm, cold, virgins)
        if warm:
            yield _cross_pair(arms, arm, warm, virgins)
        if warm and arm != PARTIAL:
            yield _shaped_pair(arms, arm, warm, virgins)
        alike = [shot for shot in warm if _resumes_as(shot, hits)]
        if arm not in (HIT, TRAFFIC_HIT, DECODED) and alike:
            yield _hit_pair(arms, arm, alike, hits)
        if arm == PARTIAL and (left := [shot for shot in warm if _resumes_as(shot, fars)]):
            yield _hit_pair(arms, arm, left, fars, "far")


def _resumes_as(shot: Shot, hits: Sequence[Shot]) -> bool:
    """Whether an answer resumed where the first hit did; what decoding refilled was not used otherwise."""
    return bool(hits) and shot.cached == hits[0].cached


def _cross_pair(arms: PromptArms, arm: str, shots: Sequence[Shot], virgins: Sequence[Shot]) -> Pair | None:
    far = _between([shot for shot in arms.of(FAR) if shot.warm], virgins[:1])
    traffic = _between(arms.of(TRAFFIC_COLD), virgins[:1])
    if arm == TRAFFIC_HIT and not traffic:
        return None
    quiet = [*traffic, *_within(virgins)]
    near = _between(shots, virgins[:1])
    return _pair(f"{arm}/cold", Path.CROSS, arms, near, quiet, far, shots, virgins)


def _far_pair(arms: PromptArms, virgins: Sequence[Shot]) -> Pair | None:
    """The far resume held against what hits right before the answer differ by: either is the other's control.

    A far resume computes more of the prompt, so a state that is passed on wrongly between two pieces shows there alone.
    """
    hits = [shot for shot in arms.of(HIT) if shot.warm]
    fars = [shot for shot in arms.of(FAR) if shot.warm]
    if not hits or not fars or (fars[0].distance or 0) < REACH_TOKENS:
        return None
    quiet = [*_between(arms.of(TRAFFIC_COLD), virgins[:1]), *_within(virgins)]
    near = _between(fars, virgins[:1])
    pair = _pair(f"{FAR}/cold", Path.REACH, arms, near, quiet, _between(hits, virgins[:1]), fars, virgins)
    tail = hits[0].distance
    long = tail is not None and tail > SHORT_TAIL
    return None if pair is None else replace(pair, family=f"{FAR}/cold" + (LONG if long else ""))


def _shaped_pair(arms: PromptArms, arm: str, shots: Sequence[Shot], virgins: Sequence[Shot]) -> Pair | None:
    """Against a cold answer that was computed in the same pieces; no pair where there is none.

    Colds under traffic are left out of the null of what was asked alone.
    """
    stepped = [_after_first(shot) for shot in arms.of(STEPPED) if shot.warm is not True and len(shot.logprobs) > 1]
    if arms.stepped and stepped and all(shot.distance == 1 for shot in shots):
        references = stepped
    elif arms.aligned:
        references = list(virgins)
    else:
        return None
    far = _between([shot for shot in arms.of(FAR) if shot.warm], virgins[:1])
    quiet = _within(virgins)
    if arm == TRAFFIC_HIT:
        quiet += _between(arms.of(TRAFFIC_COLD), virgins[:1])
    return _pair(
        f"{arm}/cold{SHAPED}", Path.SHAPED, arms, _between(shots, references[:1]), quiet, far, shots, references
    )


def _after_first(shot: Shot) -> Shot:
    """The answer from its second token on."""
    return replace(shot, logprobs=shot.logprobs[1:])


def _cold_pair(arms: PromptArms, arm: str, shots: Sequence[Shot], virgins: Sequence[Shot]) -> Pair | None:
    placebo = _within(virgins)
    stand_in = [*_within(arms.of(HIT)), *_between(arms.of(TRAFFIC_COLD), virgins[:1])]
    near = _between(shots, virgins[:1])
    quiet = placebo if placebo else stand_in
    return _pair(f"{arm}/virgin", Path.SAME, arms, near, quiet, [], shots, virgins, proxy=not placebo)


def _hit_pair(
    arms: PromptArms, arm: str, shots: Sequence[Shot], hits: Sequence[Shot], reference: str = HIT
) -> Pair | None:
    """What agrees with the cold answer is right, even where the hit is not so: a prompt on the brink of two routes
    through the experts goes either way, by what filled the cache.
    """
    virgins = arms.of(VIRGIN)
    quiet = [*_within(virgins), *_within(hits), *_within(shots), *_between(arms.of(TRAFFIC_COLD), virgins[:1])]
    near = [_nearer(_between([shot], [*hits[:1], *virgins[:1]])) for shot in shots if _between([shot], hits[:1])]
    return _pair(f"{arm}/{reference}", Path.SAME, arms, near, quiet, [], shots, hits)


def _short_pair(arms: PromptArms, shots: Sequence[Shot]) -> Pair | None:
    """A prompt too short to be cached, again and again: no null but the largest harmless offset applies."""
    pair = _pair("short/short", Path.SAME, arms, _between(shots[1:], shots[:1]), [], [], shots[1:], shots[:1])
    return None if pair is None else replace(pair, floor=0.0, proxy=True)


def _placebo(arms: PromptArms, virgins: Sequence[Shot]) -> Pair | None:
    hits = [shot for shot in arms.of(HIT) if shot.warm]
    quiet = _within(hits)
    if len(virgins) < 2 or not quiet:
        return None
    return _pair("virgin/virgin", Path.PLACEBO, arms, _within(virgins), quiet, [], virgins[1:], virgins[:1])


def _pair(
    family: str,
    path: Path,
    arms: PromptArms,
    near: Sequence[_Gap],
    quiet: Sequence[_Gap],
    far: Sequence[_Gap],
    shots: Sequence[Shot],
    references: Sequence[Shot],
    *,
    proxy: bool = False,
) -> Pair | None:
    if not near:
        return None
    controls = [*quiet, *far]
    distances = [shot.distance for shot in shots if shot.distance is not None]
    short = not distances or min(distances) <= SHORT_TAIL
    flips = [gap.flip for gap in near]
    has_null = bool(far) if path in (Path.CROSS, Path.SHAPED, Path.REACH) else bool(quiet)
    return Pair(
        family=family if short or path is not Path.CROSS else family + LONG,
        path=path,
        prompt=arms.prompt,
        round_index=arms.round_index,
        near=sum(gap.whole for gap in near) / len(near),
        near_first=sum(gap.first for gap in near) / len(near),
        null=max(gap.whole for gap in controls) if has_null else None,
        null_first=max(gap.first for gap in controls) if has_null else None,
        floor=max((gap.whole for gap in quiet), default=None),
        flip=None if None in flips else min(flip for flip in flips if flip is not None),
        null_flip=max((gap.flip for gap in quiet if gap.flip is not None), default=0.0),
        proxy=proxy,
        distance=min(distances, default=None),
        request_ids=tuple(shot.request_id for shot in (*shots, *references[:1])),
    )


def _between(shots: Iterable[Shot], references: Sequence[Shot]) -> list[_Gap]:
    return [gap for shot in shots for gap in [_gap(shot, other) for other in references] if gap is not None]


def _nearer(gaps: Sequence[_Gap]) -> _Gap:
    """One answer's gap to whichever of its references it is nearer to."""
    return min(gaps, key=lambda gap: gap.whole)


def _within(shots: Sequence[Shot]) -> list[_Gap]:
    """Every two replicates of one arm."""
    return [gap for one, other in combinations(shots, 2) if (gap := _gap(one, other)) is not None]


def _gap(one: Shot, other: Shot) -> _Gap | None:
    gaps = squared_gaps(one.logprobs, other.logprobs)
    whole, first = mean_gap(gaps), mean_gap(gaps[:FIRST])
    if whole is None or first is None:
        return None
    flip = first_flip(one.logprobs, other.logprobs)
    return _Gap(whole=whole, first=first, flip=None if flip is None else flip.gap)
