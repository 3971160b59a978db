"""What a verdict on pairs shows: names of what alarmed, the worst pairs, the smallest effects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from harness.checks.eviction.decision import PLACEBO
from harness.checks.eviction.pairs import Pair
from harness.checks.eviction.tests import Result
from harness.checks.verdict import Evidence

_SHOWN, _SHOWN_PLACEBOS = 5, 2


def named(what: str, results: Sequence[Result]) -> str:
    """What it is, in which families, by which tests."""
    tests: dict[str, list[str]] = {}
    for result in results:
        tests.setdefault(result.family, []).append(result.test)
    return f"{what} in " + "; ".join(f"{family} ({', '.join(names)})" for family, names in tests.items())


def effects_with_distances(families: Mapping[str, Sequence[Pair]], effects: Mapping[str, float]) -> dict[str, float]:
    """Smallest effects with the distances from the resume point at which they hold."""
    found = {}
    for name, nats in effects.items():
        distances = [pair.distance for pair in families[name] if pair.distance is not None]
        where = f" at {min(distances)}-{max(distances) + 15} tokens" if distances else ""
        found[name + where] = nats
    return found


def worst_pairs(families: Iterable[str], pairs: Sequence[Pair]) -> tuple[Evidence, ...]:
    """The worst pairs of each family, as evidence."""
    found: list[Evidence] = []
    for family in dict.fromkeys(families):
        worst = sorted((pair for pair in pairs if pair.family == family), key=lambda pair: -pair.near_first)
        usual = median(pair.near for pair in worst)
        found += [_evidence(pair, usual) for pair in worst[: _SHOWN if family != PLACEBO else _SHOWN_PLACEBOS]]
    return tuple(found)


def _evidence(pair: Pair, usual: float) -> Evidence:
    null = "not measured" if pair.null is None else f"{math.sqrt(pair.null):.3f}"
    return Evidence(
        request_ids=pair.request_ids,
        text=f"{pair.family} on {pair.prompt}: {math.sqrt(pair.near):.3f} nats RMS over 16 positions, noise {null}",
        table={
            "family": pair.family,
            "rms_nats": math.sqrt(pair.near),
            "rms_first4_nats": math.sqrt(pair.near_first),
            "null_rms_nats": None if pair.null is None else math.sqrt(pair.null),
            "median_rms_nats": math.sqrt(usual),
            "flip_gap_nats": pair.flip,
            "distance_tokens": pair.distance,
        },
    )
