"""The exact tier: where repeats of a request are identical to the last bit, any difference on the same path counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.checks.eviction.pairs import Pair, Path
from harness.stats.tests import fisher_greater

PLACEBOS_NEEDED = 20
IDENTICAL = 1e-12
"""Squared nats; what the rounding of printed numbers could leave is far above, so identical means identical."""
SMALLEST = 0.002
"""Nats above which a difference is no rounding of printed numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """differing: prompts by family whose pair differs although all `placebos` repeats are identical.

    alarms: families where chance cannot explain them. active: whether there were identical placebos enough.
    """

    active: bool
    placebos: int
    differing: Mapping[str, tuple[str, ...]]
    alarms: tuple[str, ...]


def exact_tier(families: Mapping[str, Sequence[Pair]], level: float, *, deterministic: bool) -> Exact:
    """Judge cold answers against cold ones exactly, and all others too if the server is declared bit-exact.

    Hits are left out otherwise: what filled the cache before each of them had another shape. `floor` of a pair is the
    largest gap among repeats on one path, so a pair with a zero floor carries a placebo.
    """
    everything = [pair for group in families.values() for pair in group]
    floors = {pair.prompt: pair.floor for pair in everything if pair.path is Path.PLACEBO}
    noise = [max(pair.near, floors[pair.prompt] or 0.0) for pair in everything if pair.path is Path.PLACEBO]
    active = len(noise) >= PLACEBOS_NEEDED and max(noise, default=1.0) <= IDENTICAL
    if not active:
        return Exact(active=False, placebos=len(noise), differing={}, alarms=())
    differing: dict[str, tuple[str, ...]] = {}
    alarms: list[str] = []
    for family, group in families.items():
        cold = family.endswith("/virgin") and family != "virgin/virgin"
        if not cold and not (deterministic and family not in ("virgin/virgin", "short/short")):
            continue
        found = tuple(pair.prompt for pair in group if pair.near > SMALLEST**2)
        differing[family] = found
        if found and fisher_greater(len(found), len(group), 0, len(noise)) <= level:
            alarms.append(family)
    return Exact(active=True, placebos=len(noise), differing=differing, alarms=tuple(alarms))
