"""Engines without recordings, recognised by what their sources and documents say."""

from __future__ import annotations

import asyncio

import pytest

from harness.endpoint.discovery import Discovery, discover
from harness.endpoint.errors import EndpointError
from harness.records import ErrorKind, RequestError
from workloads.plan import Json


class Pages:
    """Answers paths with what it was given, and 404 otherwise."""

    def __init__(self, pages: dict[str, Json]) -> None:
        self._pages = pages
        self.asked: list[str] = []

    async def get_json(self, path: str) -> Json:
        self.asked.append(path)
        if path not in self._pages:
            raise EndpointError(RequestError(kind=ErrorKind.HTTP_STATUS, message="Not Found", http_status=404))
        return self._pages[path]

    async def get_text(self, path: str) -> str:
        return str(await self.get_json(path))

    async def post_json(self, path: str, body: Json) -> Json:
        return await self.get_json(path)


def found(entry: dict[str, Json], **more: Json) -> tuple[Discovery, list[str]]:
    pages: dict[str, Json] = {"/v1/models": {"data": [{"id": "m", **entry}]}}
    client = Pages({**pages, **{path.replace("__", "/"): content for path, content in more.items()}})
    return asyncio.run(discover(client)), client.asked


def test_tensorrt_llm_by_its_owner_and_without_draining_its_statistics() -> None:
    discovery, asked = found({"owned_by": "tensorrt_llm"}, __version={"version": "1.2.0"})
    assert (discovery.engine, discovery.engine_version) == ("tensorrt-llm", "1.2.0")
    assert "/metrics" not in asked


def test_dynamo_by_its_counters() -> None:
    discovery, _ = found({"owned_by": "someone"}, __metrics="dynamo_frontend_requests_total 3\n")
    assert (discovery.engine, discovery.engine_version) == ("dynamo", None)


def test_litellm_by_its_readiness_page() -> None:
    discovery, _ = found({"owned_by": "openai"}, __health__readiness={"status": "ok", "litellm_version": "1.110.2"})
    assert (discovery.engine, discovery.engine_version) == ("litellm", "1.110.2")


def test_openrouter_by_its_prices_with_the_context_of_its_list() -> None:
    discovery, asked = found({"pricing": {"prompt": "0.1"}, "context_length": 262144})
    assert (discovery.engine, discovery.models[0].max_model_len) == ("openrouter", 262144)
    assert asked == ["/v1/models"]


def test_an_older_sglang_by_its_older_route() -> None:
    info = {"version": "0.5.9", "tp_size": 4, "mamba_scheduler_strategy": "extra_buffer"}
    discovery, _ = found({"owned_by": "sglang"}, __get_server_info=info)
    assert discovery.engine_version == "0.5.9"
    assert discovery.details == {"tp_size": 4, "mamba_scheduler_strategy": "extra_buffer"}


@pytest.mark.parametrize("entry", [{"owned_by": "nobody"}, {}])
def test_a_server_that_gives_no_sign_has_no_engine(entry: dict[str, Json]) -> None:
    assert found(entry)[0].engine is None
