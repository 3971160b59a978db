"""A client and a history in memory, and generators small enough to see through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.endpoint.encode import EncodedRequest
from harness.endpoint.errors import EndpointError
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.records import CellInfo, Complete, CounterSample, ErrorKind, Invoke, RequestError
from tests.virtual_time import VirtualClock
from workloads.plan import Ask, ChatPrompt, Done, Json, Message, Observation, Phase, Step, Wait

MS = 1_000_000
S = 1_000_000_000
TARGET = Target(base=normalise_base_url("http://127.0.0.1:9"), model="tiny")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """How the server answers one request: first event after `first_ns`, then one every `gap_ns`."""

    first_ns: int = 50 * MS
    gap_ns: int = 10 * MS
    tokens: int = 5
    prompt_tokens: int = 20
    cached_tokens: int = 8
    status: int = 200


@dataclass(slots=True)
class FakeClient:
    """Answers in virtual time and notes what was sent when; `answers` picks the script of a request."""

    clock: VirtualClock
    answers: Callable[[EncodedRequest], Script] = lambda request: Script()
    metrics: str | None = "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 1\n"
    connections: int | None = None
    target: Target = TARGET
    sent: list[tuple[int, EncodedRequest]] = field(default_factory=list)
    ended_ns: dict[str, int] = field(default_factory=dict)
    in_flight: int = 0
    most_in_flight: int = 0
    scrapes_ns: list[int] = field(default_factory=list)
    controls: Mapping[str, str] = field(default_factory=dict)
    posted: list[str] = field(default_factory=list)

    async def open_connections(self, count: int) -> int:
        return count if self.connections is None else self.connections

    async def get_text(self, path: str) -> str:
        self.scrapes_ns.append(self.clock.now_ns())
        if self.metrics is None:
            raise EndpointError(RequestError(kind=ErrorKind.HTTP_STATUS, message="not found", http_status=404))
        return self.metrics

    async def post_text(self, path: str) -> str:
        self.posted.append(path)
        said = self.controls.get(path)
        if said is None:
            raise EndpointError(RequestError(kind=ErrorKind.HTTP_STATUS, message="not found", http_status=404))
        return said

    async def send(self, request: EncodedRequest, *, on_cancel: Callable[[RawAnswer], None] | None = None) -> RawAnswer:
        sent_ns = self.clock.now_ns()
        self.sent.append((sent_ns, request))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        pieces: list[tuple[int, bytes]] = []
        try:
            await self._answer(self.answers(request), pieces, request.abort_after_events)
        except asyncio.CancelledError:
            if on_cancel is not None:
                error = RequestError(kind=ErrorKind.CANCELLED, message="cancelled")
                on_cancel(self._raw(sent_ns, pieces, 200, error))
            raise
        finally:
            self.in_flight -= 1
            self.ended_ns[request.request_id] = self.clock.now_ns()
        script = self.answers(request)
        if request.abort_after_events is not None:
            error = RequestError(kind=ErrorKind.CANCELLED, message="aborted as planned")
            return self._raw(sent_ns, pieces, 200, error)
        if script.status == 200:
            return self._raw(sent_ns, pieces, 200, None)
        error = RequestError(kind=ErrorKind.HTTP_STATUS, message="busy", http_status=script.status)
        return self._raw(sent_ns, pieces, script.status, error)

    async def _answer(self, script: Script, pieces: list[tuple[int, bytes]], most: int | None) -> None:
        if most == 0:
            return
        await asyncio.sleep(script.first_ns / S)
        if script.status != 200:
            return
        for number in range(script.tokens):
            if number == most:
                return
            if number > 0:
                await asyncio.sleep(script.gap_ns / S)
            pieces.append((self.clock.now_ns(), _event({"choices": [{"index": 0, "delta": {"content": "x "}}]})))
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
        usage: Mapping[str, Json] = {
            "prompt_tokens": script.prompt_tokens,
            "completion_tokens": script.tokens,
            "total_tokens": script.prompt_tokens + script.tokens,
            "prompt_tokens_details": {"cached_tokens": script.cached_tokens},
        }
        tail = _event(last) + _event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n"
        pieces.append((self.clock.now_ns(), tail))

    def _raw(
        self, sent_ns: int, pieces: Sequence[tuple[int, bytes]], status: int, error: RequestError | None
    ) -> RawAnswer:
        starts = np.cumsum([0, *(len(data) for _, data in pieces)])[: len(pieces)]
        return RawAnswer(
            http_status=status,
            headers={"content-type": "text/event-stream"},
            sent_ns=sent_ns,
            body=b"".join(data for _, data in pieces),
            starts=tuple(int(start) for start in starts),
            arrivals_ns=tuple(at_ns for at_ns, _ in pieces),
            end_ns=self.clock.now_ns(),
            error=error,
        )


def _event(content: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


@dataclass(slots=True)
class FakeHistory:
    """Keeps everything in memory; `fail_after` completes, the disk is full."""

    lines: list[Invoke | Complete | CounterSample] = field(default_factory=list)
    raws: dict[str, bytes] = field(default_factory=dict)
    info: CellInfo | None = None
    closed: bool = False
    fail_after: int | None = None
    ids: int = 0

    def next_request_id(self) -> str:
        self.ids += 1
        return f"r{self.ids}"

    def invoke(self, invoke: Invoke) -> None:
        self.lines.append(invoke)

    def complete(
        self,
        complete: Complete,
        event_times_ns: Sequence[int] | npt.NDArray[np.int64] | None = None,
        raw: bytes | None = None,
    ) -> None:
        if self.fail_after is not None and len(self.completes) >= self.fail_after:
            raise OSError("the disk is full")
        self.lines.append(complete)
        if raw is not None:
            self.raws[complete.request_id] = raw

    def counters(self, sample: CounterSample) -> None:
        self.lines.append(sample)

    def finish(self, info: CellInfo) -> None:
        self.info = info
        self.close()

    def close(self) -> None:
        self.closed = True

    @property
    def invokes(self) -> list[Invoke]:
        return [line for line in self.lines if isinstance(line, Invoke)]

    @property
    def completes(self) -> list[Complete]:
        return [line for line in self.lines if isinstance(line, Complete)]


def ask(key: str, *, phase: Phase = Phase.MEASURE, planned_ns: int | None = None, text: str = "hello") -> Ask:
    prompt = ChatPrompt(messages=(Message(role="user", content=text),))
    return Ask(key=key, prompt=prompt, max_tokens=5, phase=phase, planned_ns=planned_ns, expected_prompt_tokens=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Gives its steps one by one, whatever comes back."""

    steps: tuple[Step | Wait, ...]
    name: str = "listed"
    version: int = 1
    reacts: bool = False

    def spec(self) -> Mapping[str, Json]:
        return {"steps": len(self.steps)}

    def start(self) -> int:
        return 0

    def next(self, state: int, observation: Observation | None, now_ns: int) -> tuple[int, Step | Wait | Done]:
        if state < len(self.steps):
            return state + 1, self.steps[state]
        return state, Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless:
    """One measured request after the other."""

    name: str = "endless"
    version: int = 1
    reacts: bool = False

    def spec(self) -> Mapping[str, Json]:
        return {}

    def start(self) -> int:
        return 0

    def next(self, state: int, observation: Observation | None, now_ns: int) -> tuple[int, Step | Wait | Done]:
        return state + 1, ask(f"k{state}")
