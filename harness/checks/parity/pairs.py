"""Answers of two servers to one prompt, paired and held against each server's own noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from harness.checks.eviction.arms import HIT, VIRGIN, PromptArms, Shot
from harness.checks.eviction.pairs import FIRST, Pair, Path
from harness.stats.gaps import first_flip, mean_gap, squared_gaps, stands_for_many

COLD, WARM = "cold", "hit"
_Two = tuple[Shot, Shot]


def pairs_between(here: PromptArms, there: PromptArms) -> tuple[Pair, ...]:
    """Cold against cold, and hit against hit with what the colds differ by as part of its null.

    None of them without log-probabilities.
    """
    mine, theirs = _cold(here), _cold(there)
    hits, their_hits = _warm(here), _warm(there)
    between = [(one, other) for one in mine for other in theirs[:1]]
    found = [
        _pair(COLD, here, between, [*_within(mine), *_within(theirs)], []),
        _pair(
            WARM, here, [(one, other) for one in hits for other in their_hits[:1]],
            [*_within(hits), *_within(their_hits)], between,
        ),
    ]  # fmt: skip
    return tuple(pair for pair in found if pair is not None)


def _cold(arms: PromptArms) -> list[Shot]:
    return [_named_apart(shot) for shot in arms.of(VIRGIN) if shot.warm is not True and shot.logprobs]


def _warm(arms: PromptArms) -> list[Shot]:
    return [_named_apart(shot) for shot in arms.of(HIT) if shot.warm and shot.logprobs]


def _named_apart(shot: Shot) -> Shot:
    """Without the tokens that many are written like, of which the two servers may name another one each. Ids would tell
    them apart, but a gateway may drop the field that asks for them."""
    tables = tuple(
        replace(each, top=tuple(pair for pair in each.top if not stands_for_many(pair[0]))) for each in shot.logprobs
    )
    return replace(shot, logprobs=tables)


def _within(shots: Sequence[Shot]) -> list[_Two]:
    return list(combinations(shots, 2))


def _pair(family: str, arms: PromptArms, near: list[_Two], quiet: list[_Two], controls: list[_Two]) -> Pair | None:
    whole, first = _mean(near, None), _mean(near, FIRST)
    if whole is None or first is None:
        return None
    flips = [first_flip(one.logprobs, other.logprobs) for one, other in near]
    quiet_flips = [flip.gap for one, other in quiet if (flip := first_flip(one.logprobs, other.logprobs)) is not None]
    known = [*quiet, *controls] if controls else []
    return Pair(
        family=family,
        path=Path.CROSS,
        prompt=arms.prompt,
        round_index=arms.round_index,
        near=whole,
        near_first=first,
        null=max(_gaps(known, None), default=None),
        null_first=max(_gaps(known, FIRST), default=None),
        floor=max(_gaps(quiet, None), default=0.0),
        flip=None if None in flips else min(flip.gap for flip in flips if flip is not None),
        null_flip=max(quiet_flips, default=0.0),
        proxy=False,
        distance=min((shot.distance for pair in near for shot in pair if shot.distance is not None), default=None),
        request_ids=tuple(dict.fromkeys(shot.request_id for pair in near for shot in pair)),
    )


def _gaps(twos: Iterable[_Two], limit: int | None) -> list[float]:
    """Mean squared gaps in nats², over the first `limit` positions."""
    each = [mean_gap(squared_gaps(one.logprobs, other.logprobs)[:limit]) for one, other in twos]
    return [gap for gap in each if gap is not None]


def _mean(twos: Iterable[_Two], limit: int | None) -> float | None:
    gaps = _gaps(twos, limit)
    return sum(gaps) / len(gaps) if gaps else None
