"""What a probe makes of counters and counts: pure cases that no recording shows."""

from __future__ import annotations

import pytest

from harness.clock import MonotonicClock
from harness.endpoint.client import Client
from harness.endpoint.dialects import DIALECTS, GENERIC, dialect_of, enabled_by
from harness.endpoint.dialects.base import Settings
from harness.endpoint.probe.behaviour import judge_cancellation
from harness.endpoint.probe.names import CAPABILITIES
from harness.endpoint.probe.prober import Prober
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.records import CounterSample


def prober(engine: str = "vllm") -> Prober:
    client = Client(Target(base=normalise_base_url("http://x"), model="m"), MonotonicClock())
    return Prober(client=client, clock=MonotonicClock(), dialect=dialect_of(engine), settings=Settings(), nonce="n")


def sample(running: float, generated: float) -> CounterSample:
    return CounterSample(
        at_ns=0, values={"vllm:num_requests_running": running, "vllm:generation_tokens_total": generated}
    )


@pytest.mark.parametrize(
    ("samples", "works", "words"),
    [
        ((sample(0, 10), sample(0, 14), sample(0, 14)), True, "4 are counted"),
        ((sample(2, 10), sample(3, 300), sample(3, 340)), False, "still running 4 s"),
        ((sample(0, 10), sample(1, 14), sample(1, 14)), None, "generates nothing any more"),
        ((sample(0, 10), sample(0, 394), sample(0, 394)), None, "too fast, or others use the server"),
    ],
)
def test_a_dropped_request_has_to_stop(
    samples: tuple[CounterSample, CounterSample, CounterSample], works: bool | None, words: str
) -> None:
    found = judge_cancellation(prober(), samples, 384)
    assert found.works is works and words in found.how


def test_counters_that_do_not_tell_are_no_verdict() -> None:
    nothing = CounterSample(at_ns=0, values={})
    assert judge_cancellation(prober(), (nothing, nothing, nothing), 384).works is None


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_speaks_of_capabilities_there_are(name: str) -> None:
    assert set(DIALECTS[name].enable_with) <= set(CAPABILITIES)
    assert all(DIALECTS[name].enable_with.values())


def test_an_engine_that_is_not_known_has_the_generic_dialect() -> None:
    assert dialect_of(None) is dialect_of("something new") is GENERIC
    assert enabled_by("sglang", "counters") == "--enable-metrics"
    assert enabled_by(None, "counters") == ""


@pytest.mark.parametrize(
    ("engine", "details", "expected"),
    [
        (
            "sglang",
            {"page_size": 64, "mamba_scheduler_strategy": "extra_buffer", "disaggregation_mode": "null", "tp_size": 8},
            Settings(
                block_tokens=64,
                state_strategy="extra_buffer",
                disaggregation="none",
                tensor_parallel=8,
                speculation="none",
            ),
        ),
        (
            "sglang",
            {
                "mamba_radix_cache_strategy": "no_buffer",
                "mamba_scheduler_strategy": "auto",
                "enable_hierarchical_cache": True,
                "hicache_storage_backend": "mooncake",
                "speculative_algorithm": "NEXTN",
                "speculative_num_steps": 3,
                "kv_cache_dtype": "auto",
            },
            Settings(
                state_strategy="no_buffer", host_tier="HiCache + mooncake", speculation="NEXTN", speculative_tokens=3
            ),
        ),
        (
            "vllm",
            {
                "cache_config_info": 'vllm:cache_config_info{block_size="2048",cache_dtype="fp8",'
                'cache_hit_alignment_tokens="1024",mamba_cache_mode="align",num_gpu_blocks="100"}',
                "drafts": True,
            },
            Settings(block_tokens=1024, kv_dtype="fp8", state_strategy="align", cache_tokens=204800, speculation="on"),
        ),
        ("vllm", {"drafts": False}, Settings(speculation="none")),
        ("openrouter", {}, Settings()),
    ],
)
def test_settings_under_the_names_of_old_and_new_versions(
    engine: str, details: dict[str, object], expected: Settings
) -> None:
    assert dialect_of(engine).read_settings(details) == expected  # type: ignore[arg-type]
