"""A server in virtual time with a prefix cache, counters, and every way of lying about what it reused."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.endpoint.encode import EncodedRequest
from harness.endpoint.errors import EndpointError
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.records import ErrorKind, RequestError
from tests.virtual_time import NS_PER_S, VirtualClock

TARGET = Target(base=normalise_base_url("http://127.0.0.1:9"), model="tiny", endpoint_type="completions")
CHARS_PER_TOKEN = 4
OUTPUT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What really happened to one request: what a report of it may lie about."""

    prompt_tokens: int
    cached_tokens: int
    known_tokens: int
    stream: bool
    number: int


Report = Callable[[Served], int | None]


def truth(served: Served) -> int | None:
    return served.cached_tokens


@dataclass(slots=True, kw_only=True)
class Prefixes:
    """Prompts seen, in one cache: a prompt can be reused from its `sightings`-th sighting on."""

    sightings: int = 1
    seen: dict[tuple[str, ...], int] = field(default_factory=dict)

    def known(self, tokens: tuple[str, ...]) -> int:
        longest = 0
        for other, count in self.seen.items():
            if count >= self.sightings:
                common = next((i for i, (a, b) in enumerate(zip(tokens, other, strict=False)) if a != b), None)
                longest = max(longest, min(len(tokens), len(other)) if common is None else common)
        return longest

    def add(self, tokens: tuple[str, ...]) -> None:
        self.seen[tokens] = self.seen.get(tokens, 0) + 1


@dataclass(slots=True, kw_only=True)
class SimulatedServer:
    """A `Sender`: a healthy server unless told otherwise.

    report: what it says instead of the truth. counted: what its counters say. counters: whether it has any. replicas:
    caches that take turns. foreign_tokens: prompt tokens of others, counted with every request of ours. flushes:
    whether its native flush works. ms_per_token: of prefill. noise_ms: of the time to the first token.
    """

    clock: VirtualClock
    step: int = 64
    offset: int = 1
    sightings: int = 1
    replicas: int = 1
    report: Report = truth
    counted: Callable[[Served], int] = lambda served: served.cached_tokens
    counters: bool = True
    foreign_tokens: int = 0
    flushes: bool = True
    salts: bool = True
    takes_ids: bool = True
    ms_per_token: float = 0.1
    noise_ms: float = 0.5
    target: Target = TARGET
    caches: list[dict[str, Prefixes]] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    prompt_total: int = 0
    cached_total: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    async def open_connections(self, count: int) -> int:
        return count

    async def get_text(self, path: str) -> str:
        if path != "/metrics" or not self.counters:
            raise EndpointError(RequestError(kind=ErrorKind.HTTP_STATUS, message="not found", http_status=404))
        return (
            "# TYPE vllm:prompt_tokens counter\n"
            f"vllm:prompt_tokens_total {self.prompt_total}\n"
            "# TYPE vllm:prompt_tokens_cached counter\n"
            f"vllm:prompt_tokens_cached_total {self.cached_total}\n"
        )

    async def post_text(self, path: str) -> str:
        if path != "/reset_prefix_cache" or not self.flushes:
            raise EndpointError(RequestError(kind=ErrorKind.HTTP_STATUS, message="not found", http_status=404))
        self.caches.clear()
        return '{"success":true}'

    async def send(self, request: EncodedRequest, *, on_cancel: Callable[[RawAnswer], None] | None = None) -> RawAnswer:
        sent_ns = self.clock.now_ns()
        body = json.loads(request.body)
        if isinstance(body["prompt"], list) and not self.takes_ids:
            return self._refused(sent_ns)
        served = self._serve(body)
        computed = served.prompt_tokens - served.cached_tokens
        try:
            await asyncio.sleep((5 + self.ms_per_token * computed + abs(self.rng.gauss(0, self.noise_ms))) / 1000)
        except asyncio.CancelledError:
            if on_cancel is not None:
                error = RequestError(kind=ErrorKind.CANCELLED, message="cancelled")
                on_cancel(self._raw(sent_ns, self.clock.now_ns(), b"", error))
            raise
        first_ns = self.clock.now_ns()
        await asyncio.sleep(0.004)
        return self._raw(sent_ns, first_ns, self._answer(served, body), None)

    def _serve(self, body: Mapping[str, object]) -> Served:
        prompt = body["prompt"]
        if isinstance(prompt, list):
            tokens = tuple(str(token) for token in prompt)
        else:
            text = str(prompt)
            tokens = tuple(text[at : at + CHARS_PER_TOKEN] for at in range(0, len(text), CHARS_PER_TOKEN))
        if not self.caches:
            self.caches = [{} for _ in range(self.replicas)]
        salt = str(body.get("cache_salt", "")) if self.salts else ""
        cache = self.caches[len(self.served) % self.replicas].setdefault(salt, Prefixes(sightings=self.sightings))
        known = cache.known(tokens)
        cached = max(0, min(known, len(tokens) - self.offset)) // self.step * self.step
        served = Served(
            prompt_tokens=len(tokens), cached_tokens=cached, known_tokens=known, stream=body["stream"] is True,
            number=len(self.served),
        )  # fmt: skip
        cache.add(tokens)
        self.served.append(served)
        self.prompt_total += served.prompt_tokens + self.foreign_tokens
        self.cached_total += self.counted(served)
        return served

    def _answer(self, served: Served, body: Mapping[str, object]) -> bytes:
        cached = self.report(served)
        usage: dict[str, object] = {
            "prompt_tokens": served.prompt_tokens,
            "completion_tokens": OUTPUT,
            "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        }
        choice: dict[str, object] = {"index": 0, "text": "word " * OUTPUT, "finish_reason": "length"}
        if body.get("logprobs"):
            top = [{f"w{rank}": -1.0 - rank for rank in range(20)}] * OUTPUT
            choice["logprobs"] = {"tokens": ["word "] * OUTPUT, "token_logprobs": [-1.0] * OUTPUT, "top_logprobs": top}
        if not served.stream:
            return json.dumps({"choices": [choice], "usage": usage}).encode()
        events = [{"choices": [choice]}, {"choices": [], "usage": usage}]
        return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"

    def _raw(self, sent_ns: int, first_ns: int, body: bytes, error: RequestError | None) -> RawAnswer:
        streamed = body.startswith(b"data:")
        return RawAnswer(
            http_status=200,
            headers={"content-type": "text/event-stream" if streamed else "application/json"},
            sent_ns=sent_ns,
            body=body,
            starts=(0,) if body else (),
            arrivals_ns=(first_ns,) if body else (),
            end_ns=self.clock.now_ns(),
            error=error,
        )

    def _refused(self, sent_ns: int) -> RawAnswer:
        error = RequestError(kind=ErrorKind.HTTP_STATUS, message="token ids are not taken", http_status=400)
        return RawAnswer(
            http_status=400,
            headers={},
            sent_ns=sent_ns,
            body=b"",
            starts=(),
            arrivals_ns=(),
            end_ns=sent_ns,
            error=error,
        )


def seconds(amount: float) -> int:
    """As nanoseconds."""
    return round(amount * NS_PER_S)
