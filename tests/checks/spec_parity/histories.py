"""Hand-written histories: answers with a table at every position, and the same positions rescored."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.records import Complete, Invoke, Outcome, Record, TokenLogprob, Usage
from workloads.plan import Json, Phase
from workloads.spec_parity import ANSWER, CLEAN_POSITIONS, CONTENTS, OPENING, RESCORED, SAMPLED

POSITIONS = (0, 1, 5, 9, 13, 20)
LENGTH, PROMPT = 24, 96
WORDS = tuple("abcdefghijklmnopqrstuvwxyz")
TOP = 16
STEP_RATE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One answer to be. shift: nats between an answer's table and what prefill says, at the positions in `off`.

    noise: nats everywhere. flip: prefill's own token at positions in `off` is another, by so many nats. step: a few
    decoded positions after the first are off by so many nats, as where experts are chosen otherwise. strange: what is
    decoded after the first token is of another text; mute: so is the token, and nothing else is told. bare: answers
    tell their tokens alone. prompt_slip: tokens by which a rescored prompt is longer than it should be.
    """

    name: str
    content: str
    cell: str = "spec-parity-r0"
    noise: float = 0.02
    shift: float = 0.0
    off: tuple[int, ...] = ()
    flip: float = 0.0
    step: float = 0.0
    strange: bool = False
    mute: bool = False
    bare: bool = False
    tables: bool = True
    prompt_slip: int = 0
    drafts: tuple[int, int, int] | None = (12, 12, 36)
    side: str = "decoded"


Change = Callable[[Shot], Shot]
LATER = tuple(position for position in POSITIONS if position not in CLEAN_POSITIONS)


def shots(count: int = 16, change: Change = lambda shot: shot, *, cell: str = "spec-parity-r0") -> list[Shot]:
    names = [(f"{cell[-2:]}/p{index}", CONTENTS[index % len(CONTENTS)]) for index in range(count)]
    return [change(Shot(name=name, content=content, cell=cell)) for name, content in names]


def rolled_back_wrongly(shot: Shot) -> Shot:
    return replace(shot, shift=1.0, off=LATER)


def history(asked: Sequence[Shot], sampled: Sequence[Answer] = (), **more: Any) -> CheckHistory:
    capabilities = Capabilities(engine="vllm", token_id_prompts=True, speculation=more.pop("speculation", True))
    answers = [answer for shot in asked for answer in (_answer(shot), *(_rescored(shot, at) for at in POSITIONS))]
    return CheckHistory(answers=(*answers, *sampled), capabilities=capabilities, **more)


def openings(asked: Sequence[Shot]) -> list[Answer]:
    """Answers of two tokens, the second one rescored."""
    return [answer for shot in asked for answer in (_opening(shot), _rescored(shot, 1))]


def _opening(shot: Shot) -> Answer:
    tables = tuple(_decoded(shot, position) for position in CLEAN_POSITIONS)
    return _made(shot, OPENING, f"{shot.name}/opening", PROMPT, len(CLEAN_POSITIONS), tables, {})


def _answer(shot: Shot) -> Answer:
    tables = tuple(_decoded(shot, position) for position in range(LENGTH))
    return _made(shot, ANSWER, f"{shot.name}/answer", PROMPT, LENGTH, tables, {})


def _decoded(shot: Shot, position: int) -> TokenLogprob:
    if position == 0 or not (shot.strange or shot.mute):
        told = _table(shot, position, shot.side, _shift(shot, position))
        return replace(told, logprob=None, top=()) if shot.bare else told
    if shot.mute:
        return TokenLogprob(token="none of them", logprob=None)
    return _table(replace(shot, name=f"{shot.name}/another"), position, shot.side)


def _rescored(shot: Shot, position: int) -> Answer:
    table = _table(shot, position, "prefilled", shot.shift if position in shot.off else 0.0)
    if shot.flip and position in shot.off:
        other = (("rival", (table.logprob if table.logprob is not None else 0.0) + shot.flip), *table.top)
        table = TokenLogprob(token="rival", logprob=other[0][1], top=other)
    labels: dict[str, Json] = {"position": position, "clean": position in CLEAN_POSITIONS}
    prompt = PROMPT + position + shot.prompt_slip
    return _made(shot, RESCORED, f"{shot.name}/rescored{position}", prompt, 1, (table,), labels)


def _made(
    shot: Shot, kind: str, key: str, prompt: int, tokens: int, tables: tuple[TokenLogprob, ...], labels: dict[str, Json]
) -> Answer:
    invoke = Invoke(
        request_id=key, cell=shot.cell, step="ask", key=key, planned_ns=0, phase=Phase.MEASURE, session=shot.name,
        arm=kind, labels={"kind": kind, "content": shot.content, **labels},
    )  # fmt: skip
    own: dict[str, Json] = {}
    if shot.drafts is not None and kind == ANSWER:
        names = ("num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens")
        own = {"metrics": {"speculative_decoding": dict(zip(names, shot.drafts, strict=True))}}
    done = Complete(
        request_id=key,
        outcome=Outcome.OK,
        usage=Usage(prompt_tokens=prompt, completion_tokens=tokens),
        output_tokens=tokens,
        extra=own,
    )
    return Answer(record=Record(invoke=invoke, complete=done), logprobs=tables if shot.tables else None)


def _shift(shot: Shot, position: int) -> float:
    """Answers of another server carry the shift themselves; a step comes at a fifth of the positions, by chance."""
    if shot.step and position > 0:
        rng = np.random.default_rng(zlib.crc32(f"{shot.name}/{position}/step".encode()))
        return shot.step if rng.random() < STEP_RATE else 0.0
    return shot.shift if shot.side != "decoded" and position in shot.off else 0.0


def _table(shot: Shot, position: int, side: str, shift: float = 0.0) -> TokenLogprob:
    rng = np.random.default_rng(zlib.crc32(f"{shot.name}/{position}".encode()))
    base = -4.0 - np.sort(rng.uniform(0.0, 9.0, len(WORDS)))
    words = [str(word) for word in rng.permutation(WORDS)]
    own = np.random.default_rng(zlib.crc32(f"{shot.name}/{position}/{side}".encode()))
    values = base + shot.noise * own.standard_normal(len(WORDS)) + shift * own.standard_normal(len(WORDS))
    listed = sorted(zip(words, map(float, values), strict=True), key=lambda each: each[1], reverse=True)
    return TokenLogprob(token=listed[0][0], logprob=listed[0][1], top=tuple(listed[:TOP]))


def sampled(
    count: int, likeliest_share: float, *, seed: int = 3, cell: str = "spec-parity-r0", first_share: float = 0.7
) -> list[Answer]:
    """Answers at temperature 1 over two tokens of 0.7 and 0.3; how often the likelier is drawn, first and later."""
    rng = np.random.default_rng(seed)
    top = (("a", float(np.log(0.7))), ("b", float(np.log(0.3))))
    found = []
    for index in range(count):
        chosen = [0 if rng.random() < (first_share if at == 0 else likeliest_share) else 1 for at in range(LENGTH)]
        tables = tuple(TokenLogprob(token=top[each][0], logprob=top[each][1], top=top) for each in chosen)
        shot = Shot(name=f"{cell}/sampled{index}", content="text", cell=cell)
        found.append(_made(shot, SAMPLED, f"{cell}/s{index}", PROMPT, LENGTH, tables, {}))
    return found
