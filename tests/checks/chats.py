"""Hand-written answers of chats, from the requests of a real plan: what the wire would have said, without the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.records import Complete, ErrorKind, Invoke, Outcome, Record, RequestError, Usage
from workloads.plan import Ask, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a server says to one request; status: of an HTTP refusal, 0 for a broken connection, None for neither."""

    text: str | None = None
    reasoning: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    ids: tuple[str, ...] | None = None
    finish: str | None = "stop"
    prompt_tokens: int | None = 500
    completion_tokens: int | None = 12
    cached: int | None = 0
    reasoning_tokens: int | None = None
    fields: frozenset[str] = frozenset()
    status: int | None = None
    message: str = "no"
    ttft_ns: int = 100
    extra: Mapping[str, Json] | None = None


Server = Callable[[Ask], Said]


def history(asks: Sequence[Ask], server: Server, check: str, **more: object) -> CheckHistory:
    """What the requests came to; the round is told by the key, "r1/..." for the second."""
    engine = str(more.pop("engine", "vllm"))
    answers = tuple(_answer(number, ask, server(ask), check) for number, ask in enumerate(asks))
    return CheckHistory(answers=answers, capabilities=Capabilities(engine=engine), **more)  # type: ignore[arg-type]


def _answer(number: int, ask: Ask, said: Said, check: str) -> Answer:
    request_id = f"q{number}"
    round_index = ask.key.partition("/")[0].removeprefix("r")
    invoke = Invoke(
        request_id=request_id, cell=f"{check}-r{round_index}", step="ask", key=ask.key, planned_ns=0, phase=ask.phase,
        session=ask.session, arm=ask.arm, expected_prompt_tokens=ask.expected_prompt_tokens, labels=ask.labels,
        parameters={**ask.parameters, "stream": ask.stream, "max_tokens": ask.max_tokens},
    )  # fmt: skip
    return Answer(record=Record(invoke=invoke, complete=_complete(request_id, said)), message_fields=said.fields)


def _complete(request_id: str, said: Said) -> Complete:
    if said.status is not None:
        kind = ErrorKind.HTTP_STATUS if said.status else ErrorKind.DISCONNECTED
        refused = 400 <= said.status < 500
        return Complete(
            request_id=request_id, outcome=Outcome.REFUSED if refused else Outcome.UNKNOWN,
            http_status=said.status if said.status else None,
            error=RequestError(kind=kind, message=said.message, http_status=said.status if said.status else None),
        )  # fmt: skip
    return Complete(
        request_id=request_id,
        outcome=Outcome.OK,
        http_status=200,
        sent_ns=0,
        first_token_ns=said.ttft_ns,
        text=said.text,
        reasoning=said.reasoning,
        tool_calls=_calls(said),
        finish_reason=said.finish,
        usage=None
        if said.prompt_tokens is None
        else Usage(
            prompt_tokens=said.prompt_tokens,
            completion_tokens=said.completion_tokens,
            cached_tokens=said.cached,
            reasoning_tokens=said.reasoning_tokens,
        ),
        extra={} if said.extra is None else said.extra,
    )


def _calls(said: Said) -> Json:
    ids = tuple(f"call_{index}" for index in range(len(said.calls))) if said.ids is None else said.ids
    made: list[Json] = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, (name, arguments) in zip(ids, said.calls, strict=True)
    ]
    return made if made else None
