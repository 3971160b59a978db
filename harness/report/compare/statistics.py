"""The figures that are compared, each as a sum or quantile over rows, so that rows can be resampled."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from harness.endpoint.counters import engine_of_counters, total
from harness.metrics.cache import cached_and_prompt_tokens
from harness.metrics.goodput import meets
from harness.metrics.latency import e2el_ms, tpot_ms, ttft_ms
from harness.metrics.tokens import input_tokens, output_tokens
from harness.records import CounterSample, Record
from harness.report.compare.sides import Round
from harness.report.compare.token_gaps import gap_counts, gap_quantile, gap_sums, quantile_of_gaps
from harness.stats.bootstrap import Floats, block_groups, weighted_mean, weighted_quantile

MS_PER_S = 1_000.0
LATENCIES: dict[str, Callable[[Record], float | None]] = {"ttft": ttft_ms, "tpot": tpot_ms, "e2el": e2el_ms}
_LATENCY_NAME = re.compile(
    r"(?P<statistic>mean|median|p(?P<percentile>\d+(\.\d+)?))_(?P<latency>ttft|tpot|itl|e2el)_ms"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a figure is computed from in one round.

    keys: the request of each row, None where rows are not requests. groups: int64[n], rows that belong together (the
    turns of a session). columns: float64[n, k].
    """

    keys: tuple[str, ...] | None
    groups: npt.NDArray[np.int64]
    columns: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """A figure by its name in summary.json.

    combine: columns float64[n, k] and weights float64[r, n] to float64[r]. whole: the figure of rounds as the summary
    defines it, where that is more than `combine` with equal weights; None if it is the same.
    """

    name: str
    title: str
    unit: str
    higher_is_better: bool
    rows: Callable[[Round], Rows]
    combine: Callable[[Floats, Floats], Floats]
    whole: Callable[[Sequence[Round]], float | None] | None = None

    def value(self, rounds: Sequence[Round]) -> float | None:
        """The figure over all rounds of a point; None if it cannot be had."""
        if self.whole is not None:
            return self.whole(rounds)
        columns = [self.rows(each).columns for each in rounds]
        joined = np.concatenate(columns) if columns else np.empty((0, 1))
        if not len(joined):
            return None
        value = float(self.combine(joined, np.ones((1, len(joined))))[0])
        return value if np.isfinite(value) else None


def statistic_named(name: str) -> Statistic:
    """The figure of that name; ValueError lists what can be compared."""
    if name in COUNTED:
        return COUNTED[name]
    match = _LATENCY_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} cannot be compared; {', '.join(COUNTED)}, or mean_, median_, p99_ of {_SPREAD}")
    latency = match["latency"]
    share = 0.5 if match["percentile"] is None else float(match["percentile"]) / 100
    if not 0 <= share <= 1:
        raise ValueError(f"{name!r}: a percentile lies between 0 and 100")
    if latency == "itl":
        return _of_gaps(name, match["statistic"], share)
    combine = _mean if match["statistic"] == "mean" else partial(_quantile, share)
    return Statistic(
        name=name,
        title=f"{match['statistic']} {'E2E latency' if latency == 'e2el' else latency.upper()}",
        unit="ms",
        higher_is_better=False,
        rows=partial(_request_rows, partial(_one, LATENCIES[latency])),
        combine=combine,
    )


_SPREAD = ", ".join(f"{name}_ms" for name in (*LATENCIES, "itl"))


def _of_gaps(name: str, word: str, share: float) -> Statistic:
    """A figure of the inter-token latencies of all requests together."""
    mean = word == "mean"
    return Statistic(
        name=name,
        title=f"{word} ITL",
        unit="ms",
        higher_is_better=False,
        rows=partial(_request_rows, gap_sums if mean else gap_counts),
        combine=_share if mean else partial(gap_quantile, share),
        whole=None if mean else partial(_whole_quantile_of_gaps, share),
    )


def _whole_quantile_of_gaps(share: float, rounds: Sequence[Round]) -> float | None:
    return quantile_of_gaps(share, [record for each in rounds for record in each.measured.completed])


def _request_rows(columns_of: Callable[[Record], tuple[float, ...] | None], each: Round) -> Rows:
    """A row for each completed request that has the figure, grouped by session, in the order of sending."""
    keys: list[str] = []
    columns: list[tuple[float, ...]] = []
    sessions: dict[str, int] = {}
    groups: list[int] = []
    for record in each.measured.completed:
        found = columns_of(record)
        if found is None:
            continue
        keys.append(record.invoke.key)
        columns.append(found)
        session = record.invoke.session if record.invoke.session is not None else record.invoke.key
        groups.append(sessions.setdefault(session, len(sessions)))
    shaped = np.array(columns, dtype=np.float64) if columns else np.empty((0, 1))
    return Rows(keys=tuple(keys), groups=np.array(groups, dtype=np.int64), columns=shaped)


def _one(latency: Callable[[Record], float | None], record: Record) -> tuple[float] | None:
    value = latency(record)
    return None if value is None else (value,)


def _tokens_and_time(record: Record) -> tuple[float, float] | None:
    tokens, busy_ms = output_tokens(record), e2el_ms(record)
    return None if tokens is None or busy_ms is None else (float(tokens), busy_ms / MS_PER_S)


def _all_tokens_and_time(record: Record) -> tuple[float, float] | None:
    sent, made = input_tokens(record), _tokens_and_time(record)
    return None if sent is None or made is None else (sent + made[0], made[1])


def _request_and_time(record: Record) -> tuple[float, float] | None:
    busy_ms = e2el_ms(record)
    return None if busy_ms is None else (1.0, busy_ms / MS_PER_S)


def _good_rows(each: Round) -> Rows:
    objectives = each.measured.options.goodput

    def good_and_time(record: Record) -> tuple[float, float] | None:
        busy_ms = e2el_ms(record)
        return None if not objectives or busy_ms is None else (float(meets(record, objectives)), busy_ms / MS_PER_S)

    return _request_rows(good_and_time, each)


def _cached_and_prompt(record: Record) -> tuple[float, float] | None:
    pair = cached_and_prompt_tokens(record)
    return None if pair is None else (float(pair[0]), float(pair[1]))


def _acceptance_rows(each: Round) -> Rows:
    """Verify steps and accepted drafts between successive samples of the server's counters."""
    start_ns = None if each.history.info is None else each.history.info.window_start_ns
    samples = [] if each.history.info is None else list(each.history.info.counters)
    before = [sample for sample in samples if start_ns is not None and sample.at_ns <= start_ns]
    used = [*before[-1:], *(sample for sample in samples if sample not in before)]
    counts = [pair for sample in used if (pair := _steps_and_accepted(sample)) is not None]
    steps = np.diff(np.array(counts, dtype=np.float64), axis=0) if len(counts) > 1 else np.empty((0, 2))
    busy = steps[steps[:, 0] > 0]
    return Rows(keys=None, groups=block_groups(len(busy)), columns=busy)


def _steps_and_accepted(sample: CounterSample) -> tuple[float, float] | None:
    engine = engine_of_counters(sample.values)
    if engine is None:
        return None
    steps, accepted = total(sample, engine, "spec_drafts"), total(sample, engine, "spec_accepted")
    return None if steps is None or accepted is None else (steps, accepted)


def _mean(columns: Floats, weights: Floats) -> Floats:
    return weighted_mean(columns[:, 0], weights)


def _quantile(share: float, columns: Floats, weights: Floats) -> Floats:
    if len(weights) == 1:
        return np.quantile(columns[:, 0], [share])
    return weighted_quantile(columns[:, 0], weights, share)


def _share(columns: Floats, weights: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Floats = (weights @ columns[:, 0]) / (weights @ columns[:, 1])
    return share


def _acceptance(columns: Floats, weights: Floats) -> Floats:
    return 1.0 + _share(columns[:, ::-1], weights)


def _per_second(rows: Callable[[Round], Rows], rounds: Sequence[Round]) -> float | None:
    """An amount over the cells' whole duration, as the summary has it."""
    amounts = [rows(each).columns[:, 0].sum() if len(rows(each).columns) else 0.0 for each in rounds]
    durations_s = [each.measured.duration_s for each in rounds]
    known_s = [each for each in durations_s if each is not None]
    if len(known_s) != len(rounds) or sum(known_s) <= 0 or not any(len(rows(each).columns) for each in rounds):
        return None
    return float(sum(amounts) / sum(known_s))


def _rate(name: str, title: str, unit: str, rows: Callable[[Round], Rows]) -> Statistic:
    """A rate: resampled as amount per busy second, which a closed loop's throughput is in proportion to.

    Under open load the arrivals set the rate, and only the amounts are resampled.
    """
    return Statistic(
        name=name,
        title=title,
        unit=unit,
        higher_is_better=True,
        rows=partial(_amount_rows, rows),
        combine=_share,
        whole=partial(_per_second, rows),
    )


def _amount_rows(rows: Callable[[Round], Rows], each: Round) -> Rows:
    found = rows(each)
    if each.is_open and len(found.columns):
        found.columns[:, 1] = 1.0
    return found


COUNTED: dict[str, Statistic] = {
    each.name: each
    for each in (
        _rate("output_throughput", "output throughput", "tokens/s", partial(_request_rows, _tokens_and_time)),
        _rate("total_token_throughput", "prompt and output tokens", "tokens/s",
              partial(_request_rows, _all_tokens_and_time)),
        _rate("request_throughput", "requests", "requests/s", partial(_request_rows, _request_and_time)),
        _rate("request_goodput", "goodput", "requests/s", _good_rows),
        Statistic(name="cached_share", title="cached share of prompt tokens", unit="share", higher_is_better=True,
                  rows=partial(_request_rows, _cached_and_prompt), combine=_share),
        Statistic(name="acceptance_length", title="acceptance length", unit="tokens/step", higher_is_better=True,
                  rows=_acceptance_rows, combine=_acceptance),
    )
}  # fmt: skip
DEFAULT_METRICS = (
    "output_throughput",
    "median_ttft_ms",
    "p90_ttft_ms",
    "median_tpot_ms",
    "median_itl_ms",
    "p99_itl_ms",
    "request_goodput",
    "cached_share",
    "acceptance_length",
)
