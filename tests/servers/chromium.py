"""Open a local page in headless Chromium over the DevTools protocol and say what went wrong on it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
]
PICTURES = (
    "JSON.stringify([...document.images].map(i => [i.complete && i.naturalWidth > 0, i.src.slice(0, 40)])"
    ".concat([...document.querySelectorAll('svg')].map(s => [s.getBoundingClientRect().width > 0, 'inline svg'])))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport:
    """Console errors, failed requests, and for each picture whether it was drawn."""

    errors: tuple[str, ...]
    pictures: tuple[tuple[bool, str], ...]
    requests: tuple[str, ...]


def chromium_path() -> str | None:
    """The browser, or None when it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.asynccontextmanager
async def _browser(executable: str) -> AsyncIterator[str]:
    """Start the browser and yield its DevTools address."""
    with tempfile.TemporaryDirectory() as profile:
        process = await asyncio.create_subprocess_exec(
            executable, *FLAGS, f"--user-data-dir={profile}", stderr=asyncio.subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            async with asyncio.timeout(60):
                while b"DevTools listening on " not in (line := await process.stderr.readline()):
                    assert line, "Chromium ended before it listened"
            yield line.split(b"DevTools listening on ")[1].decode().strip()
        finally:
            process.terminate()
            await process.wait()


async def _look(address: str, url: str) -> PageReport:
    import json

    port = address.split(":")[2].split("/")[0]
    events: list[dict[str, object]] = []
    async with aiohttp.ClientSession() as session:
        async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as response:
            target = json.loads(await response.text())["webSocketDebuggerUrl"]
        async with session.ws_connect(target, max_msg_size=0) as socket:

            async def call(number: int, method: str, **params: object) -> dict[str, object]:
                await socket.send_json({"id": number, "method": method, "params": params})
                while True:
                    message = await socket.receive_json(timeout=60)
                    if message.get("id") == number:
                        return dict(message.get("result", {}))
                    events.append(message)

            for number, method in enumerate(("Log.enable", "Runtime.enable", "Network.enable", "Page.enable")):
                await call(number, method)
            await call(10, "Page.navigate", url=url)
            while not any(event.get("method") == "Page.loadEventFired" for event in events):
                events.append(await socket.receive_json(timeout=60))
            answer = await call(11, "Runtime.evaluate", expression=PICTURES)
    pictures = json.loads(str(answer["result"]["value"]))  # type: ignore[index]
    return PageReport(
        errors=tuple(filter(None, map(_error, events))),
        pictures=tuple((bool(drawn), str(source)) for drawn, source in pictures),
        requests=tuple(filter(None, map(_request, events))),
    )


def _error(event: dict[str, object]) -> str | None:
    params = event.get("params")
    if not isinstance(params, dict):
        return None
    if event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
        return str(params["entry"]["text"])
    if event["method"] == "Runtime.exceptionThrown":
        return str(params["exceptionDetails"]["text"])
    if event["method"] == "Runtime.consoleAPICalled" and params["type"] in {"error", "assert"}:
        return str(params["args"])
    return None


def _request(event: dict[str, object]) -> str | None:
    params = event.get("params")
    if event.get("method") == "Network.requestWillBeSent" and isinstance(params, dict):
        url = str(params["request"]["url"])
        return None if url.startswith("data:") else url
    return None


async def look_at(url: str, executable: str) -> PageReport:
    """Load `url` and report; the browser ends with the call."""
    async with _browser(executable) as address:
        return await _look(address, url)
