"""What each client says of its requests, in one shape: request number, TTFT, gaps between tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.peers.clients import TOKENS
from harness.store import RunFolder, read_cell

_NUMBER = re.compile(r"r(\d{9})")
Times = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A request as its client timed it, in seconds. number: that of the mock. gaps_s: None if it keeps none."""

    number: int
    ttft_s: float
    gaps_s: Times | None


def _number(text: object) -> int:
    found = _NUMBER.search(str(text))
    if found is None:
        raise ValueError(f"an answer of the mock has no request number: {str(text)[:60]!r}")
    return int(found.group(1))


def _stamped(number: int, sent_ns: int, event_ns: list[int]) -> Timed:
    times_s = np.array(event_ns[:TOKENS], dtype=np.int64) / 1e9
    return Timed(number=number, ttft_s=float(times_s[0] - sent_ns / 1e9), gaps_s=np.diff(times_s))


def _ours(folder: Path) -> Iterator[Timed]:
    (path,) = (folder / "results").iterdir()
    run = RunFolder.open(path)
    for cell in run.cells():
        for record in read_cell(run, cell).records:
            sent_ns, times_ns = record.complete.sent_ns, record.event_times_ns
            if sent_ns is not None and times_ns is not None:
                yield _stamped(_number(record.complete.text), sent_ns, times_ns.tolist())


def _floor(folder: Path) -> Iterator[Timed]:
    for line in (folder / "times.jsonl").read_text().splitlines():
        said = json.loads(line)
        yield _stamped(said["id"], said["sent_ns"], said["t"])


def _vllm(folder: Path) -> Iterator[Timed]:
    """SGLang appends a line a run and uses the same names."""
    said = json.loads((folder / "result.json").read_text().splitlines()[-1])
    for text, ttft_s, gaps_s in zip(said["generated_texts"], said["ttfts"], said["itls"], strict=True):
        yield Timed(number=_number(text), ttft_s=ttft_s, gaps_s=np.array(gaps_s[: TOKENS - 1]))


def _guidellm(folder: Path) -> Iterator[Timed]:
    said = json.loads((folder / "result.json").read_text())
    for request in said["benchmarks"][0]["requests"]["successful"]:
        ttft_s = request["time_to_first_token_ms"] / 1e3
        yield Timed(number=_number(request["output"]), ttft_s=ttft_s, gaps_s=None)


def _aiperf(folder: Path) -> Iterator[Timed]:
    for line in (folder / "artifacts" / "profile_export_raw.jsonl").read_text().splitlines():
        said: dict[str, Any] = json.loads(line)
        responses = said["responses"]
        number = _number(responses[0]["packets"][0]["value"])
        yield _stamped(number, said["start_perf_ns"], [each["perf_ns"] for each in responses])


READERS: dict[str, Callable[[Path], Iterator[Timed]]] = {
    "ling-bench": _ours,
    "C floor": _floor,
    "vLLM bench serve": _vllm,
    "SGLang": _vllm,
    "SGLang Rust": _vllm,
    "GuideLLM": _guidellm,
    "AIPerf": _aiperf,
}


def errors_ms(answers: list[Timed], log: dict[int, Any]) -> dict[str, list[float] | None]:
    """p50 and p99 of |error| of TTFT and of the gaps against the mock's own times; gaps None if none are kept."""
    first, gaps = [], []
    for answer in answers:
        sent_s = np.array(log[answer.number]["t"], dtype=np.int64) / 1e9
        first.append(abs(answer.ttft_s - (sent_s[0] - log[answer.number]["t_done"] / 1e9)))
        if answer.gaps_s is not None and len(answer.gaps_s) == TOKENS - 1:
            gaps.append(np.abs(answer.gaps_s - np.diff(sent_s)))
    return {
        "ttft_error_ms": _quantiles_ms(np.array(first)) if first else None,
        "itl_error_ms": _quantiles_ms(np.concatenate(gaps)) if gaps else None,
    }


def _quantiles_ms(values_s: Times) -> list[float]:
    return [round(float(value) * 1e3, 3) for value in np.percentile(values_s, [50, 99])]
