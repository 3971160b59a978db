"""A server that cannot be asked: one clear message that says what to change, and a key that goes nowhere else."""

from __future__ import annotations

import asyncio
import re
import socket

import click
import pytest

from harness.cli.exits import NothingMeasured
from harness.cli.target import Access, EndpointChoice, identify, make_target
from harness.clock import MonotonicClock
from harness.endpoint.client import Client
from harness.endpoint.secret import Secret
from harness.endpoint.target import Target, Timeouts
from harness.endpoint.url import normalise_base_url
from tests.endpoint.bad_server import BadServer, Respond, always, plain

KEY = "sk-a-key-of-some-length"
HTML = "Content-Type: text/html"
MODELS = b'{"data":[{"id":"m","owned_by":"someone"}]}'


def target(url: str) -> Target:
    return Target(base=normalise_base_url(url), model="", api_key=Secret(KEY))


def told(respond: Respond, *, path: str = "") -> str:
    """What a user is told of a server that answers so."""

    async def main() -> str:
        async with BadServer(respond) as server:
            url = server.url + path
            async with Client(target(url), MonotonicClock()) as client:
                with pytest.raises(NothingMeasured) as caught:
                    await identify(client, None)
                return str(caught.value.message)

    return asyncio.run(main())


async def refused(url: str, words: str, model: str | None = None) -> None:
    """Identification fails with these words."""
    async with Client(target(url), MonotonicClock()) as client:
        with pytest.raises(click.ClickException, match=re.escape(words)):
            await identify(client, model)


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_a_wrong_key(status: str) -> None:
    assert "--api-key or OPENAI_API_KEY" in told(always(plain(status, b'{"error":"Unauthorized"}')))


def test_a_wrong_path() -> None:
    message = told(always(plain("404 Not Found", b"<html>no such page</html>", HTML)), path="/api/openai")
    assert "has no /v1/models (HTTP 404)" in message and "everything before /v1" in message


def test_https_against_a_plain_server() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(16)
        writer.write(plain("400 Bad Request", b"what is this?"))
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await refused(f"https://127.0.0.1:{port}", f"speaks plain http, not https: give http://127.0.0.1:{port}")

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        plain("400 Bad Request", b"<html>The plain HTTP request was sent to HTTPS port</html>", HTML),
        plain("400 Bad Request", b"Client sent an HTTP request to an HTTPS server.\n"),
    ],
)
def test_http_against_a_server_behind_tls(answer: bytes) -> None:
    assert "speaks https, not plain http: give https://127.0.0.1:" in told(always(answer, close=True))


def test_http_against_a_server_that_hangs_up() -> None:
    assert "try https://127.0.0.1:" in told(always(close=True))


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent"])
def test_a_redirect_is_told_and_the_key_stays_here(status: str) -> None:
    async def main() -> None:
        async with BadServer(always(plain("200 OK", MODELS))) as other:
            moved = plain(status, b"", f"Location: {other.url}/v1/models")
            async with BadServer(always(moved)) as server:
                await refused(server.url, "was not followed, so that the key")
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
            assert other.requests == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (plain("502 Bad Gateway", b"<html><h1>502</h1>nginx</html>", HTML), "a proxy answered for"),
        (plain("503 Unavailable", b"<!DOCTYPE html><p>back soon", HTML), "a proxy answered for"),
        (plain("407 Proxy Authentication Required", b""), "wants a login of its own"),
        (plain("200 OK", b"<!doctype html><title>Sign in</title>", HTML), "is in between"),
    ],
)
def test_a_proxy_in_between(answer: bytes, words: str) -> None:
    assert words in told(always(answer))


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"

    asyncio.run(refused(url, "cannot reach"))


def test_a_model_that_is_not_served_is_a_usage_error_that_lists_those_that_are() -> None:
    async def main() -> None:
        async with BadServer(always(plain("200 OK", MODELS))) as server:
            await refused(server.url, "does not serve other; it serves m", "other")

    asyncio.run(main())


def test_the_key_is_in_no_message() -> None:
    assert KEY not in told(always(plain("400 Bad Request", f'{{"error":"bad key {KEY}"}}'.encode())))


def test_counters_of_tensorrt_llm_are_not_where_a_look_drains_them() -> None:
    choice = EndpointChoice(base=normalise_base_url("http://x"), chosen_by="option")
    pages = {
        engine: make_target(choice, Access(), "m", "chat", Timeouts(), engine).counter_pages
        for engine in ("tensorrt-llm", "vllm", None)
    }
    assert pages == {"tensorrt-llm": ("/prometheus/metrics",), "vllm": ("/metrics",), None: ("/metrics",)}
    elsewhere = Access(metrics_urls=("http://worker/metrics",))
    assert make_target(choice, elsewhere, "m", "chat", Timeouts(), "vllm").counter_pages == ("http://worker/metrics",)
