"""One request from plan to record: encoded, written down, sent, read, written down again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from harness.clock import Clock
from harness.drive.nonce import with_nonce
from harness.drive.ports import History, KeepPrompt, Sender
from harness.drive.progress import Progress
from harness.drive.spec import CellSpec
from harness.drive.tally import Tally
from harness.endpoint.complete import to_complete
from harness.endpoint.encode import EncodedRequest, encode_request
from harness.endpoint.raw import RawAnswer
from harness.endpoint.wire import decode
from harness.records import Complete, Invoke, Outcome
from workloads.plan import Ask, Observation
from workloads.text import CountTokens


class Asker:
    """Carries out the requests of one cell; every request it begins to send gets its `Complete`."""

    def __init__(
        self,
        spec: CellSpec,
        client: Sender,
        history: History,
        keep_prompt: KeepPrompt,
        clock: Clock,
        progress: Progress,
        count_tokens: CountTokens | None,
    ) -> None:
        self._spec = spec
        self._client = client
        self._history = history
        self._keep_prompt = keep_prompt
        self._clock = clock
        self._progress = progress
        self._count_tokens = count_tokens
        self._recorded = 0
        self.tally = Tally()

    async def ask(self, ask: Ask, planned_ns: int) -> Complete:
        """Send one request at `planned_ns` and record what came of it.

        The bytes are made before the planned time, and read only after the answer's end and after the loop has looked
        at its sockets once more: neither may delay the stamping of other answers by more than one answer's decoding.
        """
        encoded, invoke = self._prepare(ask, planned_ns)
        await self._clock.sleep_until(planned_ns)
        self._history.invoke(invoke)

        def cut_off(partial: RawAnswer) -> None:
            self._record(invoke, encoded, partial)

        answer = await self._client.send(encoded, on_cancel=cut_off)
        try:
            await asyncio.sleep(0)
        finally:
            complete = self._record(invoke, encoded, answer)
        return complete

    def _prepare(self, ask: Ask, planned_ns: int) -> tuple[EncodedRequest, Invoke]:
        if self._spec.nonce is not None:
            ask = replace(ask, prompt=with_nonce(ask.prompt, self._spec.nonce))
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
        )
        return encoded, invoke

    def _record(self, invoke: Invoke, encoded: EncodedRequest, answer: RawAnswer) -> Complete:
        reading = decode(answer, stream=encoded.stream, count_tokens=self._count_tokens)
        complete = to_complete(invoke.request_id, answer, reading)
        raw = answer.body if self._keeps_raw(complete.outcome) else None
        self._history.complete(complete, reading.event_times_ns, raw)
        self.tally.add(invoke, complete)
        self._progress.request_finished(invoke, complete)
        return complete

    def _keeps_raw(self, outcome: Outcome) -> bool:
        self._recorded += 1
        every = self._spec.raw_every
        return outcome is not Outcome.OK or (every > 0 and (self._recorded - 1) % every == 0)


def observed(key: str, complete: Complete) -> Observation:
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
    )
