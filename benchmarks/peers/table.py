"""The runs of every client as one table: the median of the repetitions, and their range."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.peers.clients import CLIENTS, TOKENS

OURS = "ling-bench"
Said = dict[str, Any]
Values = dict[int, float]


class Runs:
    """What was said, by client, part and repetition; the later line counts where one was made again."""

    def __init__(self, lines: Iterable[Said]) -> None:
        self._said = {(line["client"], line["part"], line["repetition"]): line for line in lines}

    def of(self, client: str, part: str) -> dict[int, Said]:
        """Runs without trouble, by repetition."""
        return {
            repetition: said
            for (name, kind, repetition), said in sorted(self._said.items())
            if (name, kind) == (client, part) and "trouble" not in said
        }

    def name(self, client: str) -> str:
        """A client and the versions that were run."""
        versions = {said["version"] for (name, _, _), said in self._said.items() if name == client}
        return f"{client} {', '.join(sorted(versions - {'-'}))}".strip()

    def troubles(self, client: str) -> str:
        """Why runs of a client show nothing; empty if all do."""
        found = {
            f"{part}: {said['trouble']}"
            for (name, part, _), said in self._said.items()
            if "trouble" in said and name == client
        }
        return "; ".join(sorted(found))


def us_per_token(runs: Runs, client: str) -> Values:
    """CPU of what the larger run had more, so that the start is taken off."""
    small, large = runs.of(client, "small"), runs.of(client, "large")
    return {
        repetition: (large[repetition]["cpu_s"] - small[repetition]["cpu_s"])
        / ((large[repetition]["requests"] - small[repetition]["requests"]) * TOKENS)
        * 1e6
        for repetition in small.keys() & large.keys()
    }


def field(part: str, name: str) -> Callable[[Runs, str], Values]:
    return lambda runs, client: {repetition: said[name] for repetition, said in runs.of(client, part).items()}


def tokens_per_s(runs: Runs, client: str) -> Values:
    """From the first request to the last token, by the mock's clock."""
    return {
        repetition: said["mock"]["tokens"] / said["mock"]["span_ns"] * 1e9
        for repetition, said in runs.of(client, "flat").items()
    }


def error_ms(name: str, place: int) -> Callable[[Runs, str], Values]:
    """p50 (place 0) or p99 (1) of an error, from whichever run kept times."""

    def values(runs: Runs, client: str) -> Values:
        found = runs.of(client, "large") | runs.of(client, "truth")
        return {repetition: said[name][place] for repetition, said in found.items() if said.get(name) is not None}

    return values


COLUMNS: dict[str, Callable[[Runs, str], Values]] = {
    "CPU us/token": us_per_token,
    "flat out tokens/s": tokens_per_s,
    "TTFT error p50 ms": error_ms("ttft_error_ms", 0),
    "TTFT error p99 ms": error_ms("ttft_error_ms", 1),
    "ITL error p50 ms": error_ms("itl_error_ms", 0),
    "ITL error p99 ms": error_ms("itl_error_ms", 1),
    "peak RSS MB": field("large", "peak_rss_mb"),
    "processes": field("large", "processes"),
    "whole run CPU s": field("large", "cpu_s"),
}
RATIOS = {
    "CPU us/token": us_per_token,
    "flat out tokens/s": tokens_per_s,
    "whole run CPU s": COLUMNS["whole run CPU s"],
}


def table(lines: Iterable[Said]) -> str:
    """Markdown: the figures, then ours divided by each other client's within a repetition, then what is missing."""
    runs = Runs(lines)
    figures = [
        [runs.name(client), *(_spread(values(runs, client)) for values in COLUMNS.values())] for client in CLIENTS
    ]
    ratios = [
        [client, *(_spread(_ratio(values(runs, OURS), values(runs, client))) for values in RATIOS.values())]
        for client in CLIENTS
        if client != OURS
    ]
    missing = [f"{client}: {trouble}" for client in CLIENTS if (trouble := runs.troubles(client))]
    parts = [_rows(["client", *COLUMNS], figures), _rows(["ling-bench over", *RATIOS], ratios), *missing]
    return "\n\n".join(parts)


def _ratio(ours: Values, theirs: Values) -> Values:
    return {repetition: ours[repetition] / theirs[repetition] for repetition in ours.keys() & theirs.keys()}


def _spread(values: Values) -> str:
    if not values:
        return "not reported"
    middle, low, high = statistics.median(values.values()), min(values.values()), max(values.values())
    return _number(middle) if low == high else f"{_number(middle)} ({_number(low)}-{_number(high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
