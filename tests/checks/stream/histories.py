"""Hand-written histories: each prompt answered whole, streamed, streamed, whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checks.framing import Framing
from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.records import Complete, Invoke, Outcome, Record, RequestError, TokenLogprob, Usage
from workloads.plan import Json, Phase

FORMS = ("whole", "stream", "stream", "whole")
TOKENS = 8
COUNTED = Usage(prompt_tokens=40, completion_tokens=TOKENS, cached_tokens=0)
WHOLE_FRAMING = Framing(finish_reasons=("length",), done_markers=1)


def answer(
    name: str,
    number: int,
    form: str,
    *,
    kind: str = "plain",
    text: str | None = None,
    finish: str | None = "length",
    usage: Usage | None = COUNTED,
    usages: tuple[Usage, ...] | None = None,
    framing: Framing | None = WHOLE_FRAMING,
    token_ids: tuple[int, ...] | None = tuple(range(TOKENS)),
    logprobs: Sequence[TokenLogprob] | None = None,
    error: RequestError | None = None,
    stop: Sequence[str] | None = None,
    **done: Any,
) -> Answer:
    """One answer of eight tokens that ended on its limit."""
    request_id = f"{name}/{number}"
    labels: dict[str, Json] = {"kind": kind, "form": form, "max_tokens": TOKENS, "stop": stop, "continuous": False}
    invoke = Invoke(
        request_id=request_id, cell="stream-r0", step="ask", key=request_id, planned_ns=0, phase=Phase.MEASURE,
        session=name, arm=kind, parameters={"stream": form == "stream"}, labels=labels,
    )  # fmt: skip
    complete = Complete(
        request_id=request_id,
        outcome=Outcome.OK if error is None else Outcome.UNKNOWN,
        error=error,
        usage=usage,
        finish_reason=finish,
        text=f"the answer to {name}" if text is None else text,
        **done,
    )
    reported = (usage,) if usage is not None else ()
    return Answer(
        record=Record(invoke=invoke, complete=complete),
        token_ids=token_ids,
        logprobs=None if logprobs is None else tuple(logprobs),
        usages=reported if usages is None else usages,
        framing=framing if form == "stream" else None,
    )


def prompt(name: str, *, streamed: dict[str, Any] | None = None, whole: dict[str, Any] | None = None) -> list[Answer]:
    """One prompt in both forms; what is given replaces fields of the answers of a form."""
    changes = {"stream": streamed if streamed is not None else {}, "whole": whole if whole is not None else {}}
    return [answer(name, number, form, **changes[form]) for number, form in enumerate(FORMS)]


def prompts(count: int = 6) -> list[Answer]:
    return [each for index in range(count) for each in prompt(f"p{index}")]


def history(answers: Sequence[Answer], **more: Any) -> CheckHistory:
    engine = more.pop("engine", "vllm")
    return CheckHistory(answers=tuple(answers), capabilities=Capabilities(engine=engine), **more)
