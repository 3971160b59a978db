"""The server's counters beside our own counts: alone, not alone, at odds, restarted."""

from __future__ import annotations

import pytest

from harness.drive.witness import OwnTokens, counter_warnings, counters_went_back
from harness.records import Complete, CounterSample, ErrorKind, Outcome, RequestError, Usage


def sample(at_ns: int, prompt: float, output: float, cached: float, label: str = "") -> CounterSample:
    names = {"prompt_tokens": prompt, "generation_tokens": output, "prompt_tokens_cached": cached}
    return CounterSample(at_ns=at_ns, values={f"vllm:{name}_total{label}": value for name, value in names.items()})


def ours(prompt: int = 1000, output: int = 100, cached: int | None = 600) -> OwnTokens:
    own = OwnTokens()
    usage = Usage(prompt_tokens=prompt, completion_tokens=output, cached_tokens=cached)
    own.add(Complete(request_id="r1", outcome=Outcome.OK, usage=usage))
    return own


BEFORE = sample(0, 50, 5, 7)


def test_counts_that_agree_need_no_word() -> None:
    assert counter_warnings((BEFORE, sample(1, 1050, 105, 607)), ours()) == []
    assert counter_warnings((BEFORE, sample(1, 1060, 105, 610)), ours()) == []


def test_somebody_elses_prompts_are_counted() -> None:
    warnings = counter_warnings((BEFORE, sample(1, 3050, 105, 607)), ours())
    assert warnings == ["not alone: the counters saw 2,000 prompt tokens that were not ours"]


def test_usage_and_counters_that_disagree_are_shown() -> None:
    warnings = counter_warnings((BEFORE, sample(1, 1050, 105, 7)), ours())
    assert warnings == ["usage and counters disagree: 600 cached tokens by usage, 0 by the counters"]
    fewer = counter_warnings((BEFORE, sample(1, 150, 105, 607)), ours())
    assert fewer == ["usage and counters disagree: 1,000 prompt tokens by usage, 100 by the counters"]


def test_a_restart_is_noticed_and_nothing_else_is_said() -> None:
    samples = (BEFORE, sample(1, 500, 50, 300), sample(2, 3, 1, 0), sample(3, 600, 60, 300))
    assert counters_went_back(samples, "vllm")
    assert counter_warnings(samples, ours()) == [
        "the server's counters went back: it was restarted, or several servers answer in turn"
    ]


@pytest.mark.parametrize("samples", [(), (BEFORE,)])
def test_without_two_samples_nothing_is_said(samples: tuple[CounterSample, ...]) -> None:
    assert counter_warnings(samples, ours()) == []


def test_an_engine_that_is_not_known_says_nothing() -> None:
    unknown = tuple(CounterSample(at_ns=at, values={"requests_total": at * 1e6}) for at in range(2))
    assert counter_warnings(unknown, ours()) == []


def test_requests_that_were_not_answered_leave_the_comparison_out() -> None:
    own = ours()
    own.add(
        Complete(request_id="r2", outcome=Outcome.UNKNOWN, error=RequestError(kind=ErrorKind.STALL_TIMEOUT, message=""))
    )
    assert counter_warnings((BEFORE, sample(1, 9050, 105, 7)), own) == []
    refused = ours()
    error = RequestError(kind=ErrorKind.HTTP_STATUS, message="", http_status=429)
    refused.add(Complete(request_id="r2", outcome=Outcome.REFUSED, error=error))
    assert counter_warnings((BEFORE, sample(1, 1050, 105, 607)), refused) == []
    assert refused.whole


def test_cached_tokens_that_are_not_reported_are_not_compared() -> None:
    own = ours(cached=None)
    assert own.cached_tokens is None
    assert counter_warnings((BEFORE, sample(1, 1050, 105, 999)), own) == []
