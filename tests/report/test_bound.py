"""What bound a cell, from the counters of recorded pages and of pages made up from their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.endpoint.dialects.prometheus import parse_counters
from harness.records import CellInfo, CounterSample
from harness.report.bound import server_load
from tests.endpoint.recordings import page
from tests.metrics.build import info


def cell(*pages: str, concurrency: int = 8) -> CellInfo:
    samples = tuple(CounterSample(at_ns=at, values=parse_counters(text)) for at, text in enumerate(pages))
    return replace(info(concurrency, window_s=(0.0, 1.0)), counters=samples)


def test_recorded_vllm_shows_preemptions_and_no_state_slots() -> None:
    load = server_load(cell(*[page("vllm-bailing3-mtp2/metrics")] * 2), "vllm")
    assert (load.preempted, load.state_usage, load.kv_usage) == (0, None, 0)


def test_recorded_sglang_of_a_model_without_states_shows_none() -> None:
    load = server_load(cell(*[page("sglang-qwen3/get_metrics_end")] * 2), "sglang")
    assert (load.preempted, load.state_usage) == (0, None)
    assert load.kv_usage == pytest.approx(0.05)


def test_full_state_slots_are_memory() -> None:
    slots = "sglang:mamba_used_tokens 31\nsglang:mamba_available_tokens 1\nsglang:mamba_evictable_tokens 0\n"
    load = server_load(cell("sglang:mamba_usage 0.97\nsglang:num_running_reqs 8\n" + slots), "sglang")
    assert (load.state_usage, load.bound, load.preempted) == (0.97, "memory", None)


@pytest.mark.parametrize(
    ("first", "last", "preempted"),
    [
        ("sglang:num_retracted_reqs 0\n", "sglang:num_retracted_requests_total 3\nsglang:num_retracted_reqs 1\n", 3),
        ("sglang:num_retracted_requests_total 3\n", "sglang:num_retracted_requests_total 5\n", 2),
        ("sglang:num_retracted_reqs 2\n", "sglang:num_retracted_reqs 0\n", 2),
        ("sglang:num_running_reqs 8\n", "sglang:num_running_reqs 8\n", None),
    ],
)
def test_retractions(first: str, last: str, preempted: float | None) -> None:
    load = server_load(cell(first, last), "sglang")
    assert load.preempted == preempted
    assert (load.bound == "memory") is bool(preempted)


def test_an_unknown_engine_shows_nothing() -> None:
    load = server_load(cell("vllm:num_preemptions_total 0\n", "vllm:num_preemptions_total 9\n"), None)
    assert (load.preempted, load.running, load.bound) == (None, None, "unknown")
