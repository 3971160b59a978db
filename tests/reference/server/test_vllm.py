"""The vLLM dialect: routes, shapes, errors, counters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from harness.reference.scheduler.request import Delta
from tests.reference.server.serving import events, post, server_options, serving, until

GREEDY = {"max_tokens": 6, "temperature": 0, "ignore_eos": True}
PROMPT = list(range(20, 120))


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def test_models_name_the_context_length() -> None:
    async def check() -> None:
        async with serving() as site:
            body = await (await site.client.get("/v1/models")).json()
            assert body["data"][0]["id"] == "tiny"
            assert body["data"][0]["max_model_len"] == 1024

    run(check())


def test_a_stream_says_what_the_whole_answer_says() -> None:
    async def check() -> None:
        async with serving() as site:
            body = {"prompt": PROMPT, **GREEDY, "logprobs": 20, "return_token_ids": True}
            _, whole = await post(site, "/v1/completions", body)
            stream = await events(site, "/v1/completions", {**body, "stream_options": {"include_usage": True}})
            choice = whole["choices"][0]
            parts = [event["choices"][0] for event in stream[:-2]]
            assert stream[-1] == "[DONE]"
            assert "".join(part["text"] for part in parts) == choice["text"]
            assert [token for part in parts for token in part["token_ids"]] == choice["token_ids"]
            assert parts[0]["prompt_token_ids"] == PROMPT
            streamed = [value for part in parts for value in part["logprobs"]["token_logprobs"]]
            assert streamed == pytest.approx(choice["logprobs"]["token_logprobs"], abs=1e-4)
            assert all(1 < len(top) <= 21 for top in choice["logprobs"]["top_logprobs"])
            usage = stream[-2]["usage"]
            assert usage["completion_tokens"] == 6
            assert usage["prompt_tokens_details"]["cached_tokens"] == 96

    run(check())


def test_chat_streams_role_text_and_usage() -> None:
    async def check() -> None:
        async with serving() as site:
            body = {"messages": [{"role": "user", "content": "Hello"}], **GREEDY, "logprobs": True, "top_logprobs": 20}
            _, whole = await post(site, "/v1/chat/completions", body)
            stream = await events(site, "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})
            assert stream[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
            text = "".join(event["choices"][0]["delta"]["content"] for event in stream[1:-2])
            assert text == whole["choices"][0]["message"]["content"]
            assert stream[-3]["choices"][0]["finish_reason"] == "length"
            assert stream[-2]["choices"] == []
            content = whole["choices"][0]["logprobs"]["content"]
            assert len(content) == 6
            assert [len(item["top_logprobs"]) for item in content] == [20] * 6

    run(check())


def test_n_and_several_prompts_make_several_choices() -> None:
    async def check() -> None:
        async with serving() as site:
            body = {"prompt": [PROMPT, PROMPT[:50]], "n": 2, "max_tokens": 4, "seed": 1, "ignore_eos": True}
            _, answer = await post(site, "/v1/completions", body)
            assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
            assert answer["usage"]["prompt_tokens"] == 150
            assert answer["usage"]["completion_tokens"] == 16
            _, again = await post(site, "/v1/completions", body)
            assert [c["text"] for c in again["choices"]] == [c["text"] for c in answer["choices"]]

    run(check())


def test_a_stop_string_cuts_the_text() -> None:
    async def check() -> None:
        async with serving() as site:
            body = {"prompt": PROMPT, **GREEDY, "max_tokens": 20}
            _, full = await post(site, "/v1/completions", body)
            text = full["choices"][0]["text"]
            stop = text[5:8]
            _, cut = await post(site, "/v1/completions", {**body, "stop": [stop]})
            assert cut["choices"][0]["text"] == text[: text.index(stop)]
            assert cut["choices"][0]["finish_reason"] == "stop"
            assert cut["choices"][0]["stop_reason"] == stop
            stream = await events(site, "/v1/completions", {**body, "stop": stop})
            assert "".join(e["choices"][0]["text"] for e in stream[:-1]) == cut["choices"][0]["text"]

    run(check())


def test_echo_and_prompt_logprobs_score_the_prompt_without_the_cache() -> None:
    async def check() -> None:
        async with serving() as site:
            for _ in range(2):
                body = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 2}
                _, answer = await post(site, "/v1/completions", body)
                assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
                scores = answer["choices"][0]["prompt_logprobs"]
                assert len(scores) == 100 and scores[0] is None
                assert scores[5][str(PROMPT[5])]["rank"] >= 1
            _, echoed = await post(site, "/v1/completions", {**body, "echo": True, "logprobs": 1})
            assert len(echoed["choices"][0]["logprobs"]["tokens"]) == 101

    run(check())


def test_a_salt_has_a_cache_of_its_own() -> None:
    async def check() -> None:
        async with serving() as site:
            seen = []
            for salt in ("a", "a", "b", "", "b"):
                _, answer = await post(site, "/v1/completions", {"prompt": PROMPT, **GREEDY, "cache_salt": salt})
                seen.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
            assert seen == [0, 96, 0, 0, 96]

    run(check())


@pytest.mark.parametrize(
    ("body", "status", "kind", "words"),
    [
        ({"prompt": "x", "model": "nope"}, 404, "NotFoundError", "does not exist"),
        ({"prompt": ""}, 400, "BadRequestError", "non-empty"),
        ({}, 400, "BadRequestError", "non-empty"),
        ({"prompt": "x", "max_tokens": 0}, 400, "BadRequestError", "at least 1"),
        ({"prompt": "x", "temperature": -3}, 400, "BadRequestError", "non-negative"),
        ({"prompt": "x", "logprobs": 100}, 400, "BadRequestError", "max allowed: 20"),
        ({"prompt": [1] * 2000}, 400, "BadRequestError", "maximum context length is 1024 tokens"),
        ({"prompt": [1] * 1000, "max_tokens": 500}, 400, "BadRequestError", "total of 1500 tokens"),
        ({"prompt": "x", "max_tokens": 10**6}, 400, "BadRequestError", "cannot be greater than max_model_len"),
        ({"prompt": "x", "stream": 3}, 400, "Bad Request", "valid boolean"),
        ({"prompt": "x", "cache_salt": "a/b"}, 400, "BadRequestError", "cache_salt"),
        ({"prompt": "x", "repetition_penalty": 1.3}, 400, "BadRequestError", "not supported"),
        ({"prompt": "x", "top_p": 0}, 400, "BadRequestError", "out of range"),
        ({"prompt": [99999]}, 400, "BadRequestError", "out of vocabulary"),
    ],
)
def test_refusals(body: dict[str, object], status: int, kind: str, words: str) -> None:
    async def check() -> None:
        async with serving() as site:
            got, answer = await post(site, "/v1/completions", body)
            error: Any = answer["error"]
            assert (got, error["type"], error["code"]) == (status, kind, status)
            assert words in error["message"]

    run(check())


def test_bad_json_and_unknown_paths() -> None:
    async def check() -> None:
        async with serving() as site:
            bad = await site.client.post("/v1/completions", data=b'{"prompt": ')
            assert bad.status == 400 and "JSON decode error" in (await bad.json())["error"]["message"]
            assert await (await site.client.get("/v1/nope")).json() == {"detail": "Not Found"}
            assert (await site.client.get("/v1/completions")).status == 405

    run(check())


def test_counters_equal_what_clients_were_told() -> None:
    async def check() -> None:
        async with serving() as site:
            answers = [await post(site, "/v1/completions", {"prompt": PROMPT, **GREEDY}) for _ in range(3)]
            usages: list[Any] = [body["usage"] for _, body in answers]
            text = await (await site.client.get("/metrics")).text()
            values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("vllm:"))
            labels = '{engine="0",model_name="tiny"}'
            assert float(values["vllm:prompt_tokens_total" + labels]) == sum(u["prompt_tokens"] for u in usages)
            assert float(values["vllm:generation_tokens_total" + labels]) == 18
            cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
            assert float(values["vllm:prefix_cache_hits_total" + labels]) == cached > 0

    run(check())


def test_the_cache_is_reset_only_when_idle_or_forced() -> None:
    async def check() -> None:
        async with serving() as site:
            service = site.service
            long = asyncio.create_task(
                post(site, "/v1/completions", {"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True})
            )
            await until(lambda: service.views()[0].running == 1)
            _, busy = await post(site, "/reset_prefix_cache", {})
            assert busy == {"success": False}
            _, forced = await post(site, "/reset_prefix_cache?reset_running_requests=true", {})
            assert forced == {"success": True}
            status, _ = await long
            assert status == 200
            _, idle = await post(site, "/reset_prefix_cache", {})
            assert idle == {"success": True}
            _, answer = await post(site, "/v1/completions", {"prompt": PROMPT, **GREEDY})
            usage: Any = answer["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == 0

    run(check())


def test_a_client_that_leaves_aborts_its_request() -> None:
    async def check() -> None:
        async with serving() as site:
            service = site.service
            response = await site.client.post(
                "/v1/completions", json={"prompt": PROMPT, "max_tokens": 900, "ignore_eos": True, "stream": True}
            )
            await response.content.readany()
            response.close()
            await until(lambda: service.views()[0].running == 0)
            assert {reason.value: n for reason, n in service.views()[0].stats.finished.items()}["abort"] == 1

    run(check())


def test_replicas_take_turns_and_have_caches_of_their_own() -> None:
    async def check() -> None:
        async with serving(server_options(replicas=2)) as site:
            seen = []
            for _ in range(4):
                _, answer = await post(site, "/v1/completions", {"prompt": PROMPT, **GREEDY})
                usage: Any = answer["usage"]
                seen.append(usage["prompt_tokens_details"]["cached_tokens"])
            assert seen == [0, 0, 96, 96]

    run(check())


def test_every_received_request_is_logged_before_it_is_answered(tmp_path: Any) -> None:
    async def check() -> None:
        path = tmp_path / "requests.jsonl"
        async with serving(server_options(request_log=str(path))) as site:
            body = {"prompt": PROMPT, **GREEDY}
            await site.client.post("/v1/completions", json=body, headers={"X-Request-Id": "mine"})
            line = json.loads(path.read_text())
            assert line["id"] == "mine" and line["prompt_tokens"] == 100 and len(line["prompt_sha256"]) == 64

    run(check())


def test_an_engine_that_fails_is_reported_to_everyone() -> None:
    async def check() -> None:
        async with serving() as site:
            engine = site.service.workers[0].engine
            healthy, steps = engine.step, iter(range(10))

            def broken() -> list[Delta]:
                if next(steps) == 4:
                    raise RuntimeError("broken")
                return healthy()

            engine.step = broken  # type: ignore[method-assign]
            stream = await events(site, "/v1/completions", {"prompt": PROMPT, **GREEDY})
            assert "broken" in str(stream[-2]) and stream[-1] == "[DONE]"
            status, _ = await post(site, "/v1/completions", {"prompt": PROMPT, **GREEDY})
            assert status == 500
            assert (await site.client.get("/health")).status == 503

    run(check())
