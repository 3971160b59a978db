"""Where hits resume: a few lengths, each asked until it is a hit, and the rule that their counts show."""

from __future__ import annotations

from workloads.eviction_requests import Requests
from workloads.eviction_shape import PROBES, EvictionOptions, Shape
from workloads.granularity import fit
from workloads.phases import Past
from workloads.waves import Wave

SIGHTINGS = 3


def probe_waves(requests: Requests, options: EvictionOptions) -> tuple[Wave, ...]:
    """The requests, one after the other."""
    return tuple(
        (requests.plain(_name(options, number), "probe", _tokens(options, number), output_tokens=1, sighting=sighting),)
        for number in range(len(PROBES))
        for sighting in range(SIGHTINGS)
    )


def shape_seen(options: EvictionOptions, past: Past) -> Shape | None:
    """Where hits resume; None if no prompt was ever a hit."""
    last = [past.seen.get(f"{_name(options, number)}/probe/{SIGHTINGS - 1}") for number in range(len(PROBES))]
    seen = [(number, one) for number, one in enumerate(last) if one is not None and one.prompt_tokens is not None]
    points = [(one.prompt_tokens, one.cached_tokens) for _, one in seen if one.cached_tokens is not None]
    rule = fit([(length, cached) for length, cached in points if length is not None])
    if rule is None:
        return None
    overheads = sorted(
        one.prompt_tokens - _tokens(options, number) for number, one in seen if one.prompt_tokens is not None
    )
    second = {number: past.cached(f"{_name(options, number)}/probe/1") for number in range(len(PROBES))}
    early = all(second[number] == one.cached_tokens for number, one in seen if one.cached_tokens)
    return Shape(rule=rule, overhead=overheads[len(overheads) // 2], sightings=1 if early else 2)


def _name(options: EvictionOptions, number: int) -> str:
    return f"{options.name}/probe{number}"


def _tokens(options: EvictionOptions, number: int) -> int:
    return int(options.longest_tokens * PROBES[number])
