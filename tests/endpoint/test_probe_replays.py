"""A probe of recorded servers: right in every row, over real sockets and without the engines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.clock import MonotonicClock
from harness.endpoint.client import Client
from harness.endpoint.discovery import Discovery, ServedModel, discover
from harness.endpoint.probe.names import CAPABILITIES
from harness.endpoint.probe.result import ProbeResult
from harness.endpoint.probe.run import NothingAnswered, ProbeOptions, probe
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.report.probe_table import probe_table
from tests.endpoint.bad_server import BadServer, plain
from tests.endpoint.replay import Replay

# The recorded answers of one model do not depend on the seed, and a tiny one neither calls tools nor reasons in time.
EVERYWHERE: dict[str, bool | None] = {
    "cached_tokens_whole": True,
    "cached_tokens_stream": True,
    "cached_tokens_by_tier": False,
    "logprobs": True,
    "top_logprobs_20": True,
    "logprobs_with_speculation": None,
    "token_id_prompts": True,
    "tokenize": True,
    "native_scoring": False,
    "speculation_per_request": None,
    "counters": True,
    "tool_calls": None,
    "reasoning": None,
    "seed": None,
    "deterministic": True,
    "cancellation": True,
    "cache_domains": True,
}
OWN: dict[str, dict[str, bool | None]] = {
    "sglang-qwen3": {
        "flush": True,
        "flush_while_busy": True,
        "salt": True,
        "cache_bypass": False,
        "prompt_logprobs": True,
        "prompt_logprobs_bypass_cache": True,
        "token_ids_returned": True,
    },
    "vllm-qwen3": {
        "flush": True,
        "flush_while_busy": False,
        "salt": True,
        "cache_bypass": False,
        "prompt_logprobs": True,
        "prompt_logprobs_bypass_cache": True,
        "token_ids_returned": True,
        "tool_calls": False,
    },
    "llama-bailing3": {
        "flush": False,
        "flush_while_busy": False,
        "salt": False,
        "cache_bypass": True,
        "prompt_logprobs": False,
        "prompt_logprobs_bypass_cache": None,
        "token_ids_returned": False,
    },
}
OWN["vllm-qwen3next"] = {**OWN["vllm-qwen3"], "tool_calls": None}


CLOCK = MonotonicClock()


async def probe_of(replay: Replay, options: ProbeOptions) -> tuple[ProbeResult, list[str]]:
    """The result, and every path that was asked."""
    async with BadServer(replay) as server:
        client = Client(Target(base=normalise_base_url(server.url), model="m"), CLOCK)
        async with client:
            found = await discover(client)
            result = await probe(client, CLOCK, found, found.models[0], options)
        return result, [request.path for request in server.requests]


def probed(recording: str, options: ProbeOptions) -> ProbeResult:
    return asyncio.run(probe_of(Replay(recording), options))[0]


@pytest.mark.parametrize("recording", OWN)
def test_every_row_is_right(recording: str) -> None:
    result = probed(recording, ProbeOptions(exclusive=True))
    assert tuple(result.capabilities) == tuple(CAPABILITIES)
    expected = {**EVERYWHERE, **OWN[recording]}
    assert {name: each.works for name, each in result.capabilities.items()} == {
        name: expected[name] for name in CAPABILITIES
    }


def test_nothing_disturbing_without_the_operators_word() -> None:
    result, paths = asyncio.run(probe_of(Replay("sglang-qwen3"), ProbeOptions()))
    assert result.works("flush") is None and "--exclusive-server" in result.capabilities["flush"].how
    assert not any("flush" in path or "reset" in path or "erase" in path for path in paths)


def test_what_is_missing_names_the_flag_that_switches_it_on() -> None:
    result = probed("vllm-qwen3", ProbeOptions(exclusive=True))
    assert result.capabilities["tool_calls"].enable_with == "--enable-auto-tool-choice --tool-call-parser ling3"
    table = probe_table(result)
    assert "switch on: --enable-auto-tool-choice --tool-call-parser ling3" in table
    assert 'tool_choice="required" requires --tool-call-parser to be set' in table.replace("\n" + " " * 35, " ")


def test_what_a_server_does_not_tell_is_unknown_with_the_note_that_records_it() -> None:
    result = probed("sglang-qwen3", ProbeOptions(notes={"state_dtype": "bfloat16"}))
    assert (result.settings["block_tokens"].value, result.settings["chunk_tokens"].value) == (1, 4096)
    assert (result.settings["state_dtype"].value, result.settings["state_dtype"].note) == ("bfloat16", "by --note")
    assert result.settings["state_slots"].as_json() == {"value": None, "note": "--note state_slots=VALUE"}
    assert "unknown; record it with --note state_slots=VALUE" in probe_table(result)


def test_the_json_has_the_promised_shape() -> None:
    content = probed("llama-bailing3", ProbeOptions()).as_json()
    assert {"engine", "version", "model", "max_model_len", "capabilities"} <= content.keys()
    assert (content["engine"], content["model"], content["max_model_len"]) == ("llama.cpp", "bailing3-tiny", 8192)
    capabilities = content["capabilities"]
    assert isinstance(capabilities, dict)
    assert all(
        isinstance(each, dict) and set(each) == {"works", "how", "enable_with"} for each in capabilities.values()
    )


def test_a_server_that_answers_no_request_is_named_with_its_words() -> None:
    class Refusing(Replay):
        async def _answer(self, body: dict[str, Any], chat: bool, writer: asyncio.StreamWriter) -> None:
            writer.write(plain("500 Broken", b'{"error":{"message":"the engine is gone"}}'))

    with pytest.raises(NothingAnswered, match="the engine is gone"):
        asyncio.run(probe_of(Refusing("vllm-qwen3"), ProbeOptions()))


def test_a_server_with_chats_alone_is_probed_by_chats() -> None:
    class ChatsAlone(Replay):
        async def _answer(self, body: dict[str, Any], chat: bool, writer: asyncio.StreamWriter) -> None:
            if chat:
                await super()._answer(body, chat, writer)
            else:
                writer.write(plain("404 Not Found", b'{"detail":"Not Found"}'))

    result, paths = asyncio.run(probe_of(ChatsAlone("vllm-qwen3"), ProbeOptions()))
    assert (result.works("logprobs"), result.works("top_logprobs_20"), result.works("deterministic")) == (True,) * 3
    assert (result.works("token_id_prompts"), result.works("prompt_logprobs")) == (False, None)
    assert paths.count("/v1/completions") == 2


def test_a_server_that_refuses_unknown_fields_is_not_sent_any() -> None:
    sent: list[dict[str, Any]] = []

    class Strict(Replay):
        async def _answer(self, body: dict[str, Any], chat: bool, writer: asyncio.StreamWriter) -> None:
            sent.append(body)
            await super()._answer(body, chat, writer)

    async def main() -> ProbeResult:
        model = ServedModel(name="m", max_model_len=None)
        found = Discovery(engine="tensorrt-llm", engine_version=None, models=(model,))
        async with BadServer(Strict("vllm-qwen3")) as server:
            client = Client(Target(base=normalise_base_url(server.url), model="m"), CLOCK)
            async with client:
                return await probe(client, CLOCK, found, model, ProbeOptions())

    result = asyncio.run(main())
    unknown = {"cache_prompt", "return_token_ids", "prompt_logprobs", "echo", "return_spec_tokens_details"}
    assert not any(unknown & body.keys() for body in sent)
    assert result.capabilities["cache_bypass"].how.startswith("not sent")
    assert result.capabilities["flush"].enable_with.startswith("none: no route empties the cache")
