"""Whether sides may be compared at all: the same was asked of both, in the same way, and caches did their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median

from harness.metrics.cache import cached_and_prompt_tokens
from harness.metrics.tokens import input_tokens, output_tokens
from harness.records import Record
from harness.report.compare.sides import Point, Round, Side
from workloads.plan import Json

ALIKE_LENGTHS = 1.05
ALIKE_OUTPUT = 1.10
SETTINGS = ("sampling", "num_warmups", "cache", "endpoint_type")
SETTING_WORDS = {"sampling": "sampling", "num_warmups": "warm-up requests", "cache": "cache mode",
                 "endpoint_type": "route"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """One thing in which sides differ that should be alike, in words."""

    what: str
    text: str


def unlike(first: Side, other: Side, points: Sequence[Point]) -> list[Unlike]:
    """Everything that speaks against comparing two measured sides; empty if nothing does."""
    found = [*_settings(first, other), *_goodput(first, other)]
    for differs in (_plans, _lengths, _outputs):
        at = [
            each for point in points if (each := differs(point, first.rounds[point], other.rounds[point])) is not None
        ]
        found += [replace(each, text=f"{each.text}{_more(len(at) - 1)}") for each in at[:1]]
    return [*found, *(each for side in (first, other) if (each := no_hits(side)) is not None)]


def _more(count: int) -> str:
    return f", and so on at {count} more point{'s' if count > 1 else ''}" if count else ""


def no_hits(side: Side) -> Unlike | None:
    """A side whose cache never hit although requests repeated what it had seen; None if it did, or none repeated."""
    repeated = [
        record
        for rounds in side.rounds.values()
        for each in rounds
        for record in repeats(each.history.records)
    ]  # fmt: skip
    pairs = [pair for record in repeated if (pair := cached_and_prompt_tokens(record)) is not None]
    if not repeated or any(cached > 0 for cached, _ in pairs):
        return None
    told = (
        f"reported no cached tokens for any of {len(pairs)}"
        if pairs
        else f"is silent on cached tokens for all {len(repeated)}"
    )
    return Unlike(
        what="no cache hit",
        text=f"{side.name} {told} requests that repeat a prompt or continue a session: is its prefix cache on,"
        " and does it report (--enable-prompt-tokens-details, --enable-cache-report)?",
    )


def repeats(records: Sequence[Record]) -> list[Record]:
    """Completed requests that continue a session or send a prompt again, so that a cache should hit."""
    seen: set[str] = set()
    found = []
    for record in records:
        invoke = record.invoke
        again = invoke.prompt_hash is not None and invoke.prompt_hash in seen
        if record.complete.error is None and (again or (invoke.turn is not None and invoke.turn > 0)):
            found.append(record)
        if invoke.prompt_hash is not None:
            seen.add(invoke.prompt_hash)
    return found


def _settings(first: Side, other: Side) -> list[Unlike]:
    one, two = _options(first), _options(other)
    return [
        Unlike(
            what=SETTING_WORDS[name],
            text=f"{SETTING_WORDS[name]}: {_shown(first, one.get(name))}, {_shown(other, two.get(name))}",
        )
        for name in SETTINGS
        if one.get(name) != two.get(name)
    ]


def _goodput(first: Side, other: Side) -> list[Unlike]:
    one, two = (dict(side.run.info.goodput) if side.run is not None else {} for side in (first, other))
    if one == two:
        return []
    return [Unlike(what="goodput", text=f"goodput objectives: {first.letter} {one}, {other.letter} {two}")]


def _options(side: Side) -> dict[str, Json]:
    return dict(side.run.info.options) if side.run is not None else {}


def _shown(side: Side, value: Json) -> str:
    return f"{side.letter} {'not recorded' if value is None else value}"


def _plans(point: Point, one: Sequence[Round], two: Sequence[Round]) -> Unlike | None:
    digests = [{None if each.plan is None else each.plan.digest for each in side} for side in (one, two)]
    if digests[0] == digests[1]:
        return None
    shown = [", ".join(sorted("none recorded" if each is None else each[:12] for each in side)) for side in digests]
    return Unlike(what="plan", text=f"plan at {point.label}: digest {shown[0]} against {shown[1]}")


def _lengths(point: Point, one: Sequence[Round], two: Sequence[Round]) -> Unlike | None:
    """Prompt lengths as planned: the models' own token counts may differ for the same text."""
    planned = [_median(side, lambda record: record.invoke.expected_prompt_tokens) for side in (one, two)]
    return _far_apart("prompt length", point, planned, ALIKE_LENGTHS)


def _outputs(point: Point, one: Sequence[Round], two: Sequence[Round]) -> Unlike | None:
    made = [_mean(side, output_tokens) for side in (one, two)]
    return _far_apart("mean output length", point, made, ALIKE_OUTPUT, " (--ignore-eos makes them alike)")


def _far_apart(
    what: str, point: Point, values: Sequence[float | None], factor: float, advice: str = ""
) -> Unlike | None:
    one, two = values
    if one is None or two is None or max(one, two) <= factor * min(one, two):
        return None
    return Unlike(what=what, text=f"{what} at {point.label}: {one:,.0f} against {two:,.0f} tokens{advice}")


def _values(side: Sequence[Round], read: Callable[[Record], int | None]) -> list[int]:
    return [value for each in side for record in each.measured.completed if (value := read(record)) is not None]


def _median(side: Sequence[Round], read: Callable[[Record], int | None]) -> float | None:
    values = _values(side, read)
    return median(values) if values else None


def _mean(side: Sequence[Round], read: Callable[[Record], int | None]) -> float | None:
    values = _values(side, read)
    return mean(values) if values else None


def own_lengths(side: Side, point: Point) -> float | None:
    """Median prompt length at a point in the side's own tokens; None if the server does not count."""
    return _median(side.rounds[point], input_tokens)
