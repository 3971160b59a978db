"""One request from plan to answer: encoded, written down, sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.clock import Clock
from harness.drive.nonce import with_nonce
from harness.drive.ports import History, KeepPrompt, Sender
from harness.drive.spec import CellSpec
from harness.endpoint.encode import EncodedRequest, encode_request
from harness.endpoint.raw import RawAnswer
from harness.records import Invoke
from workloads.plan import Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request whose answer has ended and is not yet read."""

    ask: Ask
    invoke: Invoke
    answer: RawAnswer


class Asker:
    """Encodes and sends the requests of one cell."""

    def __init__(self, spec: CellSpec, client: Sender, history: History, keep_prompt: KeepPrompt, clock: Clock) -> None:
        self._spec = spec
        self._client = client
        self._history = history
        self._keep_prompt = keep_prompt
        self._clock = clock

    async def ask(
        self, ask: Ask, planned_ns: int, ended: Callable[[Answered], None], released_ns: int | None = None
    ) -> None:
        """Send one request at `planned_ns`; its bytes are made before that.

        `ended` gets the answer of every request that was begun, also one cut off by cancellation. released_ns: when
        there was room for it.
        """
        encoded, invoke = self._prepare(ask, planned_ns, released_ns)
        await self._clock.sleep_until(planned_ns)
        self._history.invoke(invoke)

        def hand_over(answer: RawAnswer) -> None:
            ended(Answered(ask=ask, invoke=invoke, answer=answer))

        hand_over(await self._client.send(encoded, on_cancel=hand_over))

    def _prepare(self, ask: Ask, planned_ns: int, released_ns: int | None) -> tuple[EncodedRequest, Invoke]:
        if self._spec.nonce is not None:
            ask = replace(ask, prompt=with_nonce(ask.prompt, self._spec.nonce, self._spec.nonce_pieces))
        request_id = self._history.next_request_id()
        encoded = encode_request(ask, self._client.target, self._spec.sampling, request_id)
        self._keep_prompt(encoded.prompt_hash, encoded.prompt)
        invoke = Invoke(
            request_id=request_id,
            cell=self._spec.cell,
            step="ask",
            key=ask.key,
            planned_ns=planned_ns,
            phase=ask.phase,
            session=ask.session,
            turn=ask.turn,
            arm=ask.arm,
            route=encoded.route,
            prompt_hash=encoded.prompt_hash,
            expected_prompt_tokens=ask.expected_prompt_tokens,
            parameters=encoded.parameters,
            labels=ask.labels,
            released_ns=released_ns,
            abort_after_events=ask.abort_after_events,
        )
        return encoded, invoke
