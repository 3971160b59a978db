from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records import CellInfo, Complete, CounterSample, Invoke, Outcome, RoundPlan, RunInfo, Usage
from harness.store.codec import NotReadable, decode, encode_document, encode_line
from tests.store import samples


def body(line: bytes) -> dict[str, object]:
    values: dict[str, object] = orjson.loads(line)
    values.pop("type")
    return values


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        (RunInfo, samples.run_info()),
        (RoundPlan, samples.round_plan()),
        (Invoke, samples.invoke("a-0")),
        (Complete, samples.complete("a-0")),
        (CellInfo, samples.cell_info()),
    ],
)
def test_every_record_comes_back_equal(kind: type, record: object) -> None:
    unread: Counter[str] = Counter()
    assert decode(kind, body(encode_line("x", record)), unread) == record  # type: ignore[arg-type]
    assert decode(kind, orjson.loads(encode_document(record)), unread) == record
    assert not unread


def test_zero_and_not_reported_stay_apart() -> None:
    usage = Usage(prompt_tokens=5, cached_tokens=0)
    back = decode(Usage, orjson.loads(encode_document(usage)), Counter())
    assert back.cached_tokens == 0
    assert back.completion_tokens is None


def test_unknown_fields_are_counted_at_every_depth() -> None:
    values = body(encode_line("complete", samples.complete("a-0")))
    values["colour"] = "red"
    usage = values["usage"]
    assert isinstance(usage, dict)
    usage["audio_tokens"] = 3
    unread: Counter[str] = Counter()
    assert decode(Complete, values, unread) == samples.complete("a-0")
    assert unread == {"Complete.colour": 1, "Usage.audio_tokens": 1}


def test_missing_fields_take_their_default_or_none() -> None:
    back = decode(Complete, {"request_id": "a", "outcome": "ok"}, Counter())
    assert back == Complete(request_id="a", outcome=Outcome.OK)
    values = orjson.loads(encode_document(samples.cell_info()))
    del values["nonce"]
    assert decode(CellInfo, values, Counter()).nonce is None


@pytest.mark.parametrize(
    "change",
    [{"request_id": None}, {"outcome": "splendid"}, {"sent_ns": "soon"}, {"usage": 3}, {"event_tokens": "12"}],
)
def test_a_wrong_type_names_its_field(change: dict[str, object]) -> None:
    values = {**body(encode_line("complete", samples.complete("a-0"))), **change}
    with pytest.raises(NotReadable, match=next(iter(change))):
        decode(Complete, values, Counter())


@given(
    order=st.permutations(list(body(encode_line("x", samples.complete("a-0"))))),
    silent=st.sets(
        st.sampled_from(["usage", "text", "sent_ns", "event_tokens", "finish_reason", "output_tokens_source"])
    ),
)
def test_keys_in_any_order_and_values_that_are_none_are_read_alike(order: list[str], silent: set[str]) -> None:
    values = body(encode_line("x", samples.complete("a-0")))
    shuffled = {name: None if name in silent else values[name] for name in order}
    expected = replace(samples.complete("a-0"), **dict.fromkeys(silent))  # type: ignore[arg-type]
    assert decode(Complete, shuffled, Counter()) == expected


def test_a_whole_number_is_no_truth_value_after_many_lines_that_were_right() -> None:
    values = body(encode_line("x", samples.complete("a-0")))
    for _ in range(3):
        decode(Complete, values, Counter())
    with pytest.raises(NotReadable, match="retries"):
        decode(Complete, {**values, "retries": True}, Counter())


def test_a_missing_field_without_default_is_not_invented() -> None:
    with pytest.raises(NotReadable, match="outcome"):
        decode(Complete, {"request_id": "a"}, Counter())


def test_half_a_character_is_mended_and_marked() -> None:
    line = orjson.loads(encode_line("complete", replace(samples.complete("a-0"), text="ab\ud83dcd")))
    assert line["text"] == "ab\ufffdcd"
    assert line["lossy"] is True
    assert line["outcome"] == "ok"


def test_what_cannot_be_json_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd:
        value: object

    with pytest.raises(TypeError):
        encode_line("odd", Odd(value=object()))


def test_a_counter_that_is_not_a_number_comes_back_as_nan() -> None:
    sample = CounterSample(at_ns=1, values={"a": math.nan, "b": 2.0})
    back = decode(CounterSample, body(encode_line("counters", sample)), Counter())
    assert math.isnan(back.values["a"])
    assert back.values["b"] == 2.0


@given(text=st.text(), extra=st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.booleans(), st.text())))
def test_any_text_survives(text: str, extra: dict[str, str]) -> None:
    record = replace(samples.complete("a-0"), text=text, extra=extra)
    assert decode(Complete, body(encode_line("complete", record)), Counter()) == record
