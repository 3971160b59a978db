"""A headless Chromium that opens one page and answers questions about it, over the DevTools protocol."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

PATIENCE_S = 30.0
ERROR_EVENTS = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable() -> str | None:
    """The path of an installed Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


@dataclass(slots=True)
class Browser:
    """One open page; `messages` are console lines, log entries and exceptions so far."""

    socket: aiohttp.ClientWebSocketResponse
    session: str = ""
    messages: list[str] = field(default_factory=list)
    loaded: bool = False
    calls: int = 0

    async def call(self, method: str, **parameters: object) -> dict[str, object]:
        """Send one command and return its result; events met on the way are noted."""
        self.calls += 1
        number = self.calls
        request: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        await self.socket.send_json(request)
        while (answer := await self._receive()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    async def attach(self) -> None:
        """Open a page of its own and listen to it."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = str(attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def open(self, url: str) -> None:
        """Open an address and wait until it is loaded, pictures included."""
        self.loaded = False
        await self.call("Page.navigate", url=url)
        while not self.loaded:
            await self._receive()

    async def evaluate(self, expression: str) -> object:
        """The value of a JavaScript expression in the page."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        result = answer["result"]
        assert isinstance(result, dict)
        return result.get("value")

    async def _receive(self) -> dict[str, object]:
        message: dict[str, object] = await self.socket.receive_json(timeout=PATIENCE_S)
        method = message.get("method")
        self.loaded = self.loaded or method == "Page.loadEventFired"
        if method in ERROR_EVENTS:
            self.messages.append(json.dumps(message["params"]))
        return message


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Browser]:
    """Start Chromium with its own profile folder and end it again."""
    program = executable()
    assert program is not None
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0")
    process = await asyncio.create_subprocess_exec(
        program, *options, f"--user-data-dir={profile}", "about:blank", stderr=asyncio.subprocess.PIPE
    )
    try:
        url = await asyncio.wait_for(_devtools_url(process), PATIENCE_S)
        async with aiohttp.ClientSession() as client, client.ws_connect(url, max_msg_size=0) as socket:
            page = Browser(socket)
            await page.attach()
            yield page
    finally:
        process.kill()
        await process.wait()


async def _devtools_url(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if found := re.search(rb"DevTools listening on (ws://\S+)", line):
            return found.group(1).decode()
    raise RuntimeError("Chromium ended before it listened")
