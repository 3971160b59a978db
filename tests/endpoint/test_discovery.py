"""Engines recognised, models chosen and counters read from recorded pages."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from harness.endpoint.counters import COUNTER_NAMES, scrape, total
from harness.endpoint.dialects.prometheus import parse_counters
from harness.endpoint.discovery import Discovery, ServedModel, discover, pick_model, token_counter
from harness.endpoint.errors import EndpointError
from harness.records import CounterSample, ErrorKind, RequestError
from tests.endpoint.recordings import WIRE, page, recorded
from workloads.plan import Json


class Recorded:
    """A client that answers from recordings; `hidden` paths answer 404."""

    def __init__(self, engine: str, hidden: frozenset[str] = frozenset()) -> None:
        self._engine = engine
        self._hidden = hidden
        self.asked: list[str] = []

    async def get_text(self, path: str) -> str:
        self.asked.append(path)
        name = f"{self._engine}/get_{path.strip('/').replace('/', '_')}"
        if path == "/metrics":
            name += "_end"
        if path in self._hidden or not (WIRE / f"{name}.txt").exists() or recorded(name).http_status != 200:
            raise EndpointError(RequestError(kind=ErrorKind.HTTP_STATUS, message="Not Found", http_status=404))
        return page(name)

    async def get_json(self, path: str) -> Json:
        content: Json = orjson.loads(await self.get_text(path))
        return content

    async def post_json(self, path: str, body: Json) -> Json:
        assert path == "/tokenize"
        content: Json = orjson.loads(page(f"{self._engine}/post_tokenize"))
        return content


def sample(name: str) -> CounterSample:
    return CounterSample(at_ns=0, values=parse_counters(page(name)))


@pytest.mark.parametrize(
    ("recording", "engine", "version", "model"),
    [
        ("vllm-qwen3", "vllm", "0.32.0", "qwen3-tiny"),
        ("sglang-qwen3", "sglang", "0.5.23", "qwen3-tiny"),
        ("llama-bailing3", "llama.cpp", "b0-unknown", "bailing3-tiny"),
    ],
)
def test_engines_are_recognised(recording: str, engine: str, version: str, model: str) -> None:
    found = asyncio.run(discover(Recorded(recording)))
    assert (found.engine, found.engine_version) == (engine, version)
    assert found.models == (ServedModel(name=model, max_model_len=8192),)
    assert found.details


def test_the_details_hold_no_field_that_was_not_chosen() -> None:
    details = asyncio.run(discover(Recorded("sglang-qwen3"))).details
    assert "--model-path" in str(details["launch_command"])
    assert not any("key" in name for name in details)


def test_discovery_sends_nothing_but_safe_gets() -> None:
    for recording in ("vllm-qwen3", "sglang-qwen3", "llama-bailing3"):
        client = Recorded(recording)
        asyncio.run(discover(client))
        assert set(client.asked) <= {"/v1/models", "/version", "/server_info", "/props", "/metrics"}


def test_an_engine_that_does_not_say_its_name_is_known_by_its_counters() -> None:
    class Nameless(Recorded):
        async def get_json(self, path: str) -> Json:
            if path == "/v1/models":
                return {"data": [{"id": "m", "owned_by": "someone"}]}
            return await super().get_json(path)

    assert asyncio.run(discover(Nameless("vllm-qwen3"))).engine == "vllm"
    nothing = frozenset({"/metrics", "/version", "/server_info", "/props"})
    found = asyncio.run(discover(Nameless("vllm-qwen3", hidden=nothing)))
    assert (found.engine, found.engine_version) == (None, None)
    assert found.models == (ServedModel(name="m", max_model_len=None),)


def test_without_a_list_of_models_there_is_no_discovery() -> None:
    with pytest.raises(EndpointError, match="Not Found"):
        asyncio.run(discover(Recorded("vllm-qwen3", hidden=frozenset({"/v1/models"}))))


def found(*names: str) -> Discovery:
    models = tuple(ServedModel(name=name, max_model_len=1) for name in names)
    return Discovery(engine=None, engine_version=None, models=models)


def test_the_only_model_is_the_default() -> None:
    assert pick_model(found("a"), None).name == "a"
    assert pick_model(found("a", "b"), "b").name == "b"
    assert pick_model(found(), "x") == ServedModel(name="x", max_model_len=None)


@pytest.mark.parametrize(
    ("served", "asked", "words"), [(("a", "b"), None, "a, b"), (("a",), "x", "serves a"), ((), None, "--model")]
)
def test_a_model_that_cannot_be_settled_is_an_error_that_lists_them(
    served: tuple[str, ...], asked: str | None, words: str
) -> None:
    with pytest.raises(LookupError, match=words):
        pick_model(found(*served), asked)


@pytest.mark.parametrize("recording", ["vllm-qwen3", "sglang-qwen3", "llama-bailing3"])
def test_the_servers_tokenizer_counts(recording: str) -> None:
    async def run() -> int:
        count = await token_counter(Recorded(recording))
        assert count is not None
        return await count("hello world")

    assert asyncio.run(run()) == 6


def test_totals_of_each_engine() -> None:
    expected = {
        "vllm-qwen3": ("vllm", 28171, 383, 17280),
        "sglang-qwen3": ("sglang", 29159, 929, 18457),
        "llama-bailing3": ("llama.cpp", 7344 + 21954, 9246, 21954),
    }
    for recording, (engine, *totals) in expected.items():
        counters = sample(f"{recording}/get_metrics_end")
        meanings = ("prompt_tokens", "generation_tokens", "cached_tokens")
        assert [total(counters, engine, meaning) for meaning in meanings] == totals
        assert (total(counters, engine, "running"), total(counters, engine, "waiting")) == (0, 0)


def test_speculation_counters() -> None:
    counters = sample("vllm-qwen3-ngram/metrics")
    drafts, accepted = (total(counters, "vllm", meaning) for meaning in ("spec_drafts", "spec_accepted"))
    assert drafts is not None
    assert accepted is not None
    assert accepted > 0
    assert total(sample("vllm-qwen3/get_metrics_end"), "vllm", "spec_drafts") is None


def test_a_share_is_a_mean_and_a_summed_label_is_not_added_twice() -> None:
    text = 'sglang:token_usage{r="0"} 0.2\nsglang:token_usage{r="1"} 0.4\n'
    text += 'sglang:cached_tokens_total{cache_source="device"} 5\nsglang:cached_tokens_total{cache_source="total"} 5\n'
    counters = CounterSample(at_ns=0, values=parse_counters(text))
    assert total(counters, "sglang", "kv_usage") == pytest.approx(0.3)
    assert total(counters, "sglang", "cached_tokens") == 5


def test_buckets_and_creation_times_are_left_out_and_labels_are_sorted() -> None:
    text = '# HELP x y\n# TYPE x histogram\nx_bucket{le="1"} 1\nx_count 2\nx_created 9\nx{b="1",a="q\\"q"} 3\n'
    assert parse_counters(text) == {"x_count": 2.0, 'x{a="q\\"q",b="1"}': 3.0}


def test_every_engine_names_the_basic_counters() -> None:
    for engine, names in COUNTER_NAMES.items():
        if engine == "tensorrt-llm":  # counts cached tokens alone
            continue
        assert {"prompt_tokens", "generation_tokens", "cached_tokens", "running", "waiting"} <= names.keys()


def test_a_page_that_is_not_counters_is_an_error() -> None:
    class Page:
        def __init__(self, text: str) -> None:
            self._text = text

        async def get_text(self, path: str) -> str:
            return self._text

    class Clock:
        def now_ns(self) -> int:
            return 7

    for text in ("<html>hello</html>", "", "a{b 1\n"):
        with pytest.raises(EndpointError):
            asyncio.run(scrape(Page(text), Clock()))  # type: ignore[arg-type]
    assert asyncio.run(scrape(Page("a 1\n"), Clock())).at_ns == 7  # type: ignore[arg-type]
