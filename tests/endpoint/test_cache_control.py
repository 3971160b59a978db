"""Flushing by each engine's own route: bodies are read, busy is retried within a bound."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from harness.endpoint.cache_control import flush
from harness.endpoint.dialects.base import Flushed
from harness.endpoint.dialects.flushing import PATIENCE_S
from harness.endpoint.errors import EndpointError
from harness.records import ErrorKind, RequestError
from tests.virtual_time import NS_PER_S, VirtualClock, run_virtual


@dataclass(slots=True)
class ControlServer:
    """Answers a path with the next of its scripted answers; a number is a status, the last answer repeats."""

    answers: dict[str, list[str | int]]
    asked: list[str] = field(default_factory=list)

    async def get_text(self, path: str) -> str:
        return await self.post_text(path)

    async def post_text(self, path: str) -> str:
        self.asked.append(path)
        scripted = self.answers.get(path.partition("?timeout")[0], [404])
        said = scripted.pop(0) if len(scripted) > 1 else scripted[0]
        if isinstance(said, int):
            raise EndpointError(RequestError(kind=ErrorKind.HTTP_STATUS, message="no", http_status=said))
        return said


def flushed(engine: str | None, answers: dict[str, list[str | int]]) -> tuple[Flushed, ControlServer, int]:
    server = ControlServer(answers)

    async def main(clock: VirtualClock) -> tuple[Flushed, int]:
        begun_ns = clock.now_ns()
        found = await flush(server, engine, clock)
        return found, clock.now_ns() - begun_ns

    found, took_ns = run_virtual(main)
    return found, server, took_ns


def test_vllm_is_believed_by_its_body_not_its_status() -> None:
    found, server, _ = flushed("vllm", {"/reset_prefix_cache": ['{"success":false}', '{"success":true}']})
    assert found.error is None
    assert len(server.asked) == 2


def test_an_empty_answer_of_an_older_vllm_counts_as_done() -> None:
    assert flushed("vllm", {"/reset_prefix_cache": [""]})[0].error is None


def test_a_server_that_stays_busy_is_given_up_after_a_bound() -> None:
    found, _, took_ns = flushed("vllm", {"/reset_prefix_cache": ['{"success":false}']})
    assert found.error is not None and found.busy
    assert PATIENCE_S <= took_ns / NS_PER_S < PATIENCE_S + 1


def test_sglang_busy_is_a_400() -> None:
    found, server, _ = flushed("sglang", {"/flush_cache": [400, "Cache flushed."]})
    assert found.error is None
    assert server.asked == ["/flush_cache?timeout=20"] * 2


def test_llama_cpp_erases_every_slot() -> None:
    erased: list[str | int] = ['{"id_slot":0,"n_erased":512}']
    routes = {"/props": ['{"total_slots":2}'], "/slots/0?action=erase": erased, "/slots/1?action=erase": erased}
    found, server, _ = flushed("llama.cpp", routes)
    assert found.error is None
    assert server.asked[1:] == ["/slots/0?action=erase", "/slots/1?action=erase"]


def test_llama_cpp_without_a_save_path_refuses() -> None:
    found, _, _ = flushed("llama.cpp", {"/props": ['{"total_slots":2}'], "/slots/0?action=erase": [501]})
    assert found.error is not None and found.error.http_status == 501


@pytest.mark.parametrize(
    ("said", "done"),
    [
        ('{"cleared_workers":[{"name":"a"}],"failed_workers":[]}', True),
        ('{"cleared_workers":[{"name":"a"}],"failed_workers":[{"name":"b"}]}', False),
        ('{"message":"No active worker groups found"}', False),
    ],
)
def test_dynamo_is_200_whatever_happened(said: str, done: bool) -> None:
    assert (flushed("dynamo", {"/clear_kv_blocks": [said]})[0].error is None) is done


def test_an_unknown_engine_is_tried_with_every_route() -> None:
    found, server, _ = flushed(None, {"/flush_cache": ["Cache flushed."]})
    assert found.error is None
    assert server.asked == ["/reset_prefix_cache", "/flush_cache?timeout=20"]


def test_a_server_without_any_route_says_so() -> None:
    found, _, took_ns = flushed(None, {})
    assert found.error is not None and found.error.http_status == 404
    assert took_ns == 0


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "dynamo"])
def test_a_refusal_is_not_repeated(engine: str) -> None:
    routes: dict[str, list[str | int]] = {}
    for path in ("/reset_prefix_cache", "/flush_cache", "/props", "/clear_kv_blocks"):
        routes[path] = [403]
    found, server, _ = flushed(engine, routes)
    assert found.error is not None and len(server.asked) == 1
