"""Every public format is recognised, read, and complained about with file and line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.plan import ChatPrompt, TextPrompt
from workloads.readers import READERS, guess_format, read_trace
from workloads.readers.rows import json_rows
from workloads.text import approximate_count
from workloads.trace import jittered
from workloads.trace_stats import fit_profile, infinite_cache_token_hit, trace_stats

TRACES = Path(__file__).resolve().parents[2] / "fixtures" / "traces"
FULL = os.environ.get("LING_BENCH_TRACES")
MESSAGES = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
SAMPLES = {
    "custom": [{"prompt": "hi", "output_tokens": 7}],
    "openai": [{"messages": MESSAGES[:1], "max_tokens": 7}],
    "sharegpt": [{"id": "a", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]}],
    "agentic": [
        {"conversations": [*MESSAGES, {"role": "tool", "content": "x"}, {"role": "assistant", "content": "y"}]}
    ],
    "aiperf": [{"session_id": "s", "turns": [{"text": "hi"}, {"text": "more", "delay": 1500}]}],
    "bailian": [
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.0, "input_length": 20, "output_length": 3, "turn": 1,
         "type": "text", "hash_ids": [1, 2]},
        {"chat_id": 2, "parent_chat_id": 1, "timestamp": 63.0, "input_length": 40, "output_length": 3, "turn": 2,
         "type": "text", "hash_ids": [1, 2, 3]},
    ],
    "mooncake": [{"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}],
    "kv-cache-tester": [
        {"id": "t", "block_size": 64, "hash_id_scope": "local", "requests": [
            {"t": 0.0, "in": 100, "out": 5, "hash_ids": [1, 2], "input_types": ["text"], "think_time": 0.0},
            {"requests": [{"t": 1.0, "in": 70, "out": 5, "hash_ids": [1, 9]}]},
            {"t": 9.0, "in": 150, "out": 5, "hash_ids": [1, 2, 3], "input_types": ["tool_result"], "think_time": 2.5},
        ]}
    ],
}  # fmt: skip
CSV = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n",
}
TEXTS = {**{name: "\n".join(map(json.dumps, rows)) for name, rows in SAMPLES.items()}, **CSV}


def test_there_is_a_sample_of_every_format() -> None:
    assert TEXTS.keys() == READERS.keys()


@pytest.mark.parametrize("name", READERS)
def test_a_format_is_recognised_and_read(name: str) -> None:
    assert guess_format(TEXTS[name]) == name
    trace = read_trace([("a file", TEXTS[name])], name)
    assert trace.requests and not trace.bad_rows
    assert trace.requests[0].at_s in (None, 0.0)


@pytest.mark.parametrize("name", SAMPLES)
def test_an_array_reads_like_lines(name: str) -> None:
    lines = read_trace([("f", TEXTS[name])], name)
    array = read_trace([("f", json.dumps(SAMPLES[name], indent=1))], name)
    assert array.requests == lines.requests


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("bad", ['{"nonsense": 1}', "[1, 2]", "{broken", "17"])
def test_a_bad_row_is_named_by_file_and_line_or_skipped_and_counted(name: str, bad: str) -> None:
    text = f"{TEXTS[name]}\n{bad}\n{TEXTS[name]}"
    line = TEXTS[name].count("\n") + 2
    with pytest.raises(ValueError, match=f"^trace.jsonl:{line}: "):
        read_trace([("trace.jsonl", text)], name)
    trace = read_trace([("trace.jsonl", text)], name, skip_bad_rows=True)
    assert [row.line for row in trace.bad_rows] == [line]
    assert len(trace.requests) == 2 * len(read_trace([("f", TEXTS[name])], name).requests)


@pytest.mark.parametrize("name", CSV)
def test_a_bad_row_of_a_table_is_named_by_its_line(name: str) -> None:
    good = CSV[name].rstrip("\n")
    bad = good.splitlines()[1].split(",")
    bad[-2 if name == "azure" else 2] = "many"
    with pytest.raises(ValueError, match=r"^t.csv:3: .*many"):
        read_trace([("t.csv", f"{good}\n{','.join(bad)}\n")], name)


@pytest.mark.parametrize("text", ["", "\n\n", "[]", "plain words", "[1]"])
def test_what_is_no_trace_is_not_taken_for_one(text: str) -> None:
    assert guess_format(text) is None
    with pytest.raises(ValueError):
        read_trace([("f", text)], "openai")


def test_what_each_format_says() -> None:
    (custom,) = read_trace([("f", TEXTS["custom"])], "custom").requests
    assert custom.prompt == TextPrompt(text="hi") and custom.output_tokens == 7
    (shared,) = read_trace([("f", TEXTS["sharegpt"])], "sharegpt").requests
    assert isinstance(shared.prompt, ChatPrompt) and shared.output_text == "hello"
    agentic = read_trace([("f", TEXTS["agentic"])], "agentic").requests
    assert [request.kind for request in agentic] == ["user", "tool"]
    aiperf = read_trace([("f", TEXTS["aiperf"])], "aiperf").requests
    assert [(request.session, request.turn, request.think_s) for request in aiperf] == [("s", 0, None), ("s", 1, 1.5)]
    bailian = read_trace([("f", TEXTS["bailian"])], "bailian").requests
    assert [(request.session, request.turn, request.at_s) for request in bailian] == [("1", 0, 0.0), ("1", 1, 2.0)]
    agent = read_trace([("f", TEXTS["kv-cache-tester"])], "kv-cache-tester").requests
    assert [(request.session, request.parent) for request in agent] == [("t", None), ("t/1", "t"), ("t", None)]
    assert agent[2].prefix_tokens == 128 and agent[2].think_s == 2.5 and agent[2].kind == "tool"


def test_block_ids_of_two_agent_sessions_do_not_mix() -> None:
    files = [(path.name, path.read_text()) for path in sorted(TRACES.glob("trace_*.json"))]
    trace = read_trace(files, "kv-cache-tester")
    one, two = trace.sessions().values()
    assert not {block for r in one for block in r.blocks or ()} & {block for r in two for block in r.blocks or ()}


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3), max_size=8))
def test_json_rows_gives_back_what_was_written(rows: list[dict[str, object]]) -> None:
    for text in ("\n".join(map(json.dumps, rows)), json.dumps(rows), json.dumps(rows, indent=2)):
        assert [value for _, value in json_rows(text)] == rows


def test_times_stamped_together_are_spread_over_the_step() -> None:
    trace = read_trace([("m", (TRACES / "mooncake_head.jsonl").read_text())], "mooncake")
    stamped = [request.at_s or 0.0 for request in trace.requests]
    spread = [request.at_s or 0.0 for request in jittered(trace.requests, 1)]
    assert len(set(spread)) == len(spread) > 5 * len(set(stamped))
    assert all(0 <= after - before <= 3 for before, after in zip(stamped, spread, strict=True))
    assert spread == [request.at_s for request in jittered(trace.requests, 1)]


def test_exact_times_are_left_alone() -> None:
    trace = read_trace([("a", (TRACES / "azure_head.csv").read_text())], "azure")
    assert jittered(trace.requests, 1) == trace.requests


def test_statistics_of_recorded_agent_sessions() -> None:
    files = [(path.name, path.read_text()) for path in sorted(TRACES.glob("trace_*.json"))]
    trace = read_trace(files, "kv-cache-tester")
    shown = trace_stats(trace, approximate_count).as_json()
    assert (shown["requests"], shown["sessions"]) == (15, 2)
    assert shown["first_input_tokens"] == {"p50": 24444.5, "p90": pytest.approx(33496.9), "p99": pytest.approx(35533.7)}
    profile = fit_profile(trace, approximate_count)
    assert profile.calls_per_session.values[0] == 7 and profile.calls_per_session.values[-1] == 8


def test_a_trace_without_growth_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="output_tokens_ending_in_tool_use"):
        fit_profile(read_trace([("f", TEXTS["mooncake"])], "mooncake"), approximate_count)


@pytest.mark.skipif(FULL is None, reason="LING_BENCH_TRACES names no folder with the whole public traces")
def test_the_whole_mooncake_trace_hits_an_endless_cache_as_published() -> None:
    text = (Path(str(FULL)) / "mooncake_conversation_trace.jsonl").read_text()
    trace = read_trace([("m", text)], "mooncake")
    assert len(trace.requests) == 12_031
    assert infinite_cache_token_hit(trace) == pytest.approx(0.374, abs=0.0005)


@pytest.mark.skipif(FULL is None, reason="LING_BENCH_TRACES names no folder with the whole public traces")
def test_every_recorded_agent_session_at_hand_is_read_and_grows() -> None:
    files = sorted((Path(str(FULL)) / "kv_cache_tester").glob("*.json"))
    trace = read_trace([(path.name, path.read_text()) for path in files], "kv-cache-tester")
    main = [request for request in trace.requests if request.parent is None]
    assert len(files) >= 6 and len({request.session for request in main}) == len(files)
    assert all(request.input_tokens and request.blocks for request in main)
    shown = trace_stats(trace, approximate_count).as_json()
    hit = shown["infinite_cache_token_hit"]
    assert isinstance(hit, float) and 0.5 < hit < 1
