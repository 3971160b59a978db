"""Hand-written histories: documents of three needles, asked cold, from the cache and after an eviction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.records import Complete, Invoke, Outcome, Record, RequestError, Usage
from workloads.plan import Json, Phase
from workloads.recall import COLD, HIT, REFILLED, RETURNED

PROMPT_TOKENS = 1000
VALUES = ("4711000", "5822111", "6933222")
LOST = RequestError(kind="disconnected", message="gone")  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One answer to be."""

    document: int
    needle: int
    arm: str
    text: str
    round_index: int = 0
    cached: int | None = 960
    prompt_tokens: int | None = PROMPT_TOKENS
    begin: float = 0.5
    ttft_ns: int = 100
    stale: tuple[str, ...] = ()
    kind: str = "number"
    lost: bool = False


Change = Callable[[Shot], Shot]


def shots(documents: int = 16, round_index: int = 0, evicted: bool = True) -> list[Shot]:
    """A sound server: everything is right, hits are hits."""
    found = []
    for document in range(documents):
        arms = [(COLD, 3), (HIT, 3), *([(RETURNED, 1), (REFILLED, 3)] if evicted else [])]
        for arm, number in arms:
            for needle in range(number):
                warm = arm in (HIT, REFILLED)
                found.append(
                    Shot(
                        document=document, needle=needle, arm=arm, text=f" {VALUES[needle]}. And so on",
                        round_index=round_index, cached=960 if warm else 0, ttft_ns=40 if warm else 100,
                    )
                )  # fmt: skip
    return found


def history(made: list[Shot], **more: object) -> CheckHistory:
    answers = tuple(_answer(number, shot) for number, shot in enumerate(made))
    rounds = 1 + max((shot.round_index for shot in made), default=0)
    return CheckHistory(answers=answers, capabilities=Capabilities(engine="vllm"), rounds=rounds, **more)  # type: ignore[arg-type]


def _answer(number: int, shot: Shot) -> Answer:
    name = f"r{shot.round_index}/d{shot.document}"
    labels: dict[str, Json] = {
        "document": name, "needle": shot.needle, "kind": shot.kind, "value": VALUES[shot.needle],
        "stale": list(shot.stale), "asked": "key K17 is", "begin": shot.begin, "end": shot.begin + 0.01, "digits": 7,
    }  # fmt: skip
    request_id = f"q{number}"
    invoke = Invoke(
        request_id=request_id, cell=f"recall-r{shot.round_index}", step="ask", key=f"{name}/{number}", planned_ns=0,
        phase=Phase.MEASURE, session=name, arm=shot.arm, labels=labels,
    )  # fmt: skip
    complete = Complete(
        request_id=request_id,
        outcome=Outcome.UNKNOWN if shot.lost else Outcome.OK,
        error=LOST if shot.lost else None,
        sent_ns=0,
        first_token_ns=shot.ttft_ns,
        text=shot.text,
        usage=Usage(prompt_tokens=shot.prompt_tokens, completion_tokens=8, cached_tokens=shot.cached),
    )
    return Answer(record=Record(invoke=invoke, complete=complete))
