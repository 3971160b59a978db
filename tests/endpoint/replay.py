"""A server that answers with what real servers were recorded to answer: the engine's wire without the engine."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.endpoint.bad_server import Request
from tests.endpoint.recordings import WIRE, recorded

LONG_CHARS = 1000
PATIENCE_S = 20.0
CONTROL = {"/flush_cache": "post_flush_cache", "/reset_prefix_cache": "post_reset_prefix_cache"}
BUSY = {"sglang": "busy/sglang_flush_busy_timeout", "vllm": "busy/vllm_reset_busy"}
# Which engine keeps a request apart by which field.
KEEPS_APART = {"sglang": "cache_salt", "vllm": "cache_salt", "llama": "cache_prompt"}


@dataclass(slots=True)
class Replay:
    """`recording` is a folder of the fixtures.

    A prompt that is called busy is answered only once the cache was to be emptied, and the first request to empty it
    only once there is that prompt: a probe does both at a time, and the machine may be slow.
    """

    recording: str
    sightings: dict[str, int] = field(default_factory=dict)
    busy: bool = False
    began: asyncio.Event = field(default_factory=asyncio.Event)
    disturbed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def _engine(self) -> str:
        return self.recording.partition("-")[0]

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        path = request.path.partition("?")[0]
        if request.method == "GET":
            name = "get_metrics_end" if path == "/metrics" else "get_" + path.strip("/").replace("/", "_")
        elif path.startswith("/v1/"):
            await self._answer(orjson.loads(request.body), path.endswith("chat/completions"), writer)
            return
        else:
            if path in CONTROL or path.startswith("/slots/"):
                await asyncio.wait_for(self.began.wait(), PATIENCE_S)
            name = self._side(path)
        await self._write(name, writer)

    def _side(self, path: str) -> str:
        """Tokenizing and cache control; whatever empties the cache makes the next long prompt a first one."""
        was_busy = self.busy
        if path in CONTROL or path.startswith("/slots/"):
            self.disturbed.set()
        if was_busy and path in CONTROL:
            return f"../{BUSY[self._engine]}"
        if path in CONTROL:
            self.sightings.clear()
        name = CONTROL.get(path, "post_slots_erase" if path.startswith("/slots/") else "post_tokenize")
        return name if path in CONTROL or path.startswith("/slots/") or path == "/tokenize" else "get_v1_nope"

    async def _answer(self, body: dict[str, Any], chat: bool, writer: asyncio.StreamWriter) -> None:
        name = self._chat(body) if chat else self._completion(body)
        if not chat and " busy]" in body["prompt"]:
            self.busy = True
            self.began.set()
            await asyncio.wait_for(self.disturbed.wait(), PATIENCE_S)
            self.busy = False
        await self._write(name, writer)

    def _chat(self, body: dict[str, Any]) -> str:
        if body.get("tools"):
            return "tool_required" if body.get("tool_choice") == "required" else "tool_auto"
        if body.get("logprobs"):
            return "chat_lp20"
        return "chat_stream" if body.get("stream") else "chat"

    def _completion(self, body: dict[str, Any]) -> str:
        if isinstance(body["prompt"], list):
            return "comp_tokenids"
        if body.get("prompt_logprobs"):
            return "comp_promptlogprobs"
        if body.get("echo"):
            return "comp_echo_lp"
        if len(body["prompt"]) >= LONG_CHARS:
            return self._long(body)
        if body.get("logprobs"):
            return "comp_logprobs20"
        return "comp_stream" if body.get("stream") else "comp"

    def _long(self, body: dict[str, Any]) -> str:
        apart = KEEPS_APART[self._engine]
        if apart in body:
            return "long_comp_1"
        number = self.sightings[body["prompt"]] = self.sightings.get(body["prompt"], 0) + 1
        if body.get("stream"):
            return "long_comp_stream_4" if number > 1 else "long_comp_1"
        return f"long_comp_{min(number, 3)}"

    async def _write(self, name: str, writer: asyncio.StreamWriter) -> None:
        if not (WIRE / self.recording / f"{name}.txt").exists():
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 22\r\n\r\n" + b'{"detail":"Not Found"}')
            return
        answer = recorded(f"{self.recording}/{name}")
        kept = [f"{key}: {value}" for key, value in answer.headers.items() if re.match("content-type|retry-after", key)]
        head = [f"HTTP/1.1 {answer.http_status} Recorded", f"Content-Length: {len(answer.body)}", *kept]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + answer.body)
        await writer.drain()
