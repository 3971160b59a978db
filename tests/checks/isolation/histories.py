"""Histories of the isolation check, written by hand: sessions asked alone twice, then in company."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.records import Complete, ErrorKind, Invoke, Outcome, Record, RequestError, TokenLogprob, Usage
from workloads.plan import Json, Phase

MODEL_VIEW = (-0.1, -3.0, -4.0, -5.0, -6.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One answer. shift: nats by which every log-probability is off; last_shift: those of the last one more.

    text: None for the own codeword.
    """

    session: int
    arm: str
    text: str | None = None
    shift: float = 0.0
    last_shift: float = 0.0
    size: int = 1
    logprobs: bool = True
    nan: bool = False
    null: bool = False
    salt: str | None = None
    cached: int | None = None
    tokens: int | None = None
    round_index: int = 0


def codeword(session: int) -> str:
    return str(4000 + 37 * session)


def logprobs_of(said: Said, text: str) -> tuple[TokenLogprob, ...]:
    """Two positions, the codeword and a dot."""
    if said.null:
        return (TokenLogprob(token=text, logprob=None),)
    found = []
    for token in (text, "."):
        shift = said.shift + (said.last_shift if token == "." else 0.0)
        view = [value + (shift if rank % 2 else -shift) for rank, value in enumerate(MODEL_VIEW)]
        top = [(token if rank == 0 else f"{token}~{rank}", value) for rank, value in enumerate(view)]
        found.append(TokenLogprob(token=token, logprob=float("nan") if said.nan else top[0][1], top=tuple(top)))
    return tuple(found)


def answer(number: int, said: Said) -> Answer:
    text = codeword(said.session) if said.text is None else said.text
    labels: dict[str, Json] = {"cycle": 0, "size": said.size}
    session = f"p{said.session:02}" if said.arm != "stranger" else f"p{said.session:02} stranger"
    if said.arm != "stranger":
        labels |= {"key": f"K{said.session}", "codeword": codeword(said.session)}
    invoke = Invoke(
        request_id=f"q{number}", cell=f"isolation-r{said.round_index}", step="ask", key=f"k{number}", planned_ns=number,
        phase=Phase.MEASURE, session=session, arm=said.arm, labels=labels,
        parameters={} if said.salt is None else {"cache_salt": said.salt},
    )  # fmt: skip
    usage = (
        None
        if said.cached is None and said.tokens is None
        else Usage(prompt_tokens=100, cached_tokens=said.cached, completion_tokens=said.tokens)
    )
    complete = Complete(request_id=invoke.request_id, outcome=Outcome.OK, text=f" {text}.", usage=usage)
    record = Record(invoke=invoke, complete=complete)
    return Answer(record=record, logprobs=logprobs_of(said, f" {text}") if said.logprobs else None)


def refused(number: int) -> Answer:
    error = RequestError(kind=ErrorKind.HTTP_STATUS, message="no", http_status=429)
    invoke = Invoke(
        request_id=f"q{number}", cell="isolation-r0", step="ask", key="k", planned_ns=0, phase=Phase.MEASURE,
        session="p00", arm="company",
    )  # fmt: skip
    complete = Complete(request_id=invoke.request_id, outcome=Outcome.REFUSED, error=error)
    return Answer(record=Record(invoke=invoke, complete=complete))


def sound(*, logprobs: bool = True, round_index: int = 0, sessions: int = 8) -> list[Said]:
    """Everybody keeps to himself; company moves numbers a little."""
    each = range(sessions)
    alone = [Said(session=s, arm="solo", logprobs=logprobs, round_index=round_index) for s in (*each, *each)]
    company = [
        Said(session=s, arm=arm, size=8, shift=0.02, logprobs=logprobs, round_index=round_index)
        for arm in ("company", "victim", "foreground")
        for s in each
    ]
    return [*alone, *company]


def history(
    said: Sequence[Said], extra: Sequence[Answer] = (), *, cut_short: str | None = None, salt: bool | None = None
) -> CheckHistory:
    answers = [answer(number, each) for number, each in enumerate(said)]
    rounds = 1 + max((each.round_index for each in said), default=0)
    known = Capabilities(engine="vllm", salt=salt)
    return CheckHistory(answers=(*answers, *extra), capabilities=known, rounds=rounds, cut_short=cut_short)
