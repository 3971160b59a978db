"""Reading answers: what the bytes mean, worked out and written down at a moment that disturbs nobody."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from harness.drive.asker import Answered
from harness.drive.budget import TokenBudget
from harness.drive.ports import History
from harness.drive.progress import Progress
from harness.drive.spec import CellSpec
from harness.drive.tally import Tally
from harness.endpoint.complete import to_complete
from harness.endpoint.wire import Reading, decode
from harness.records import Complete, Outcome
from workloads.plan import Json, Observation, ToolCall
from workloads.text import CountTokens


class Reader:
    """Turns answers into records, one between two turns of the event loop.

    So the stamping of arriving bytes and the sending of the next wave wait for the reading of one answer at most. What
    an answer cost is settled with `budget`.
    """

    def __init__(
        self,
        spec: CellSpec,
        history: History,
        progress: Progress,
        budget: TokenBudget,
        count_tokens: CountTokens | None,
    ) -> None:
        self._spec = spec
        self._history = history
        self._progress = progress
        self.budget = budget
        self._count_tokens = count_tokens
        self._unread: deque[Answered] = deque()
        self._wake = asyncio.Event()
        self._answers = 0
        self.tally = Tally()

    @property
    def backlog(self) -> int:
        """Answers not yet read."""
        return len(self._unread)

    def put(self, answered: Answered) -> None:
        """Read this one later."""
        self._unread.append(answered)
        self._wake.set()

    async def watch(self) -> None:
        """Read what is put, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._unread:
                await asyncio.sleep(0)
                self.read_one()

    def read_one(self) -> None:
        """Read the oldest answer now, if there is one."""
        if self._unread:
            self.read(self._unread.popleft())

    def read_all(self) -> None:
        """Read everything now; for the end of a cell."""
        while self._unread:
            self.read_one()

    def read(self, answered: Answered) -> Complete:
        """Read one answer, write it down and count it."""
        return self._read(answered)[0]

    def observe(self, answered: Answered) -> Observation:
        """Read one answer, and what a generator gets to see of it."""
        complete, reading = self._read(answered)
        return observed(answered.ask.key, complete, _ids(reading))

    def _read(self, answered: Answered) -> tuple[Complete, Reading]:
        invoke, answer = answered.invoke, answered.answer
        reading = decode(answer, stream=answered.ask.stream, count_tokens=self._count_tokens)
        complete = to_complete(invoke.request_id, answer, reading)
        raw = answer.body if self._keeps_raw(complete.outcome) else None
        self._history.complete(complete, reading.event_times_ns, raw)
        self.tally.add(invoke, complete)
        self.budget.settle(invoke.key, complete)
        self._progress.request_finished(invoke, complete)
        return complete, reading

    def _keeps_raw(self, outcome: Outcome) -> bool:
        self._answers += 1
        every = self._spec.raw_every
        return outcome is not Outcome.OK or (every > 0 and (self._answers - 1) % every == 0)


def _ids(reading: Reading) -> tuple[int, ...] | None:
    """Token ids as such, else those that stand beside the log-probabilities; None unless all are known."""
    if reading.token_ids is not None or reading.logprobs is None:
        return reading.token_ids
    ids = [position.token_id for position in reading.logprobs]
    return None if None in ids else tuple(each for each in ids if each is not None)


def observed(key: str, complete: Complete, token_ids: tuple[int, ...] | None = None) -> Observation:
    """The small view of an answer that a generator gets."""
    usage = complete.usage
    first_ns, sent_ns = complete.first_token_ns, complete.sent_ns
    return Observation(
        key=key,
        outcome=complete.outcome.value,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cached_tokens=None if usage is None else usage.cached_tokens,
        output_tokens=complete.output_tokens,
        text=complete.text,
        ttft_ns=None if first_ns is None or sent_ns is None else first_ns - sent_ns,
        tool_calls=_tool_calls(complete.tool_calls),
        token_ids=token_ids,
    )


def _tool_calls(recorded: Json) -> tuple[ToolCall, ...]:
    """Tool calls out of a record, where they stand in OpenAI's shape; those without a name are left out."""
    if not isinstance(recorded, Sequence) or isinstance(recorded, str):
        return ()
    found = [_tool_call(call) for call in recorded if isinstance(call, Mapping)]
    return tuple(call for call in found if call is not None)


def _tool_call(call: Mapping[str, Json]) -> ToolCall | None:
    function = call.get("function")
    if not isinstance(function, Mapping) or not function.get("name"):
        return None
    arguments = str(function.get("arguments") or "{}")
    return ToolCall(call_id=str(call.get("id") or ""), name=str(function["name"]), arguments=arguments)
