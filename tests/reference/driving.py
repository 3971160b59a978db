"""Running small engines in tests: a tiny random model, requests that arrive at given steps, answers to compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from harness.reference.assembly import Served, build_engine
from harness.reference.config import ModelConfig
from harness.reference.model.arithmetic import Mode
from harness.reference.model.model import Model
from harness.reference.options import EngineOptions
from harness.reference.sampling import SamplingParams, TokenLogprob
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.request import Finish, Request, Usage
from harness.reference.weights.random_weights import random_weights

VOCAB = 12
EOS = 0


class Letters:
    """A text stream that spells every token as one character."""

    def push(self, ids: Sequence[int]) -> str:
        return "".join(chr(97 + i % 26) for i in ids)

    def finish(self) -> str:
        return ""


@dataclass
class Answer:
    """Everything one request got."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    finish: Finish | None = None
    usage: Usage | None = None
    deltas: int = 0


def tiny_config(arch: str = "hybrid", mtp_layers: int = 1) -> ModelConfig:
    return ModelConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        layers=3,
        group_size=3 if arch == "hybrid" else 1,
        heads=2,
        head_dim=16,
        kv_rank=24,
        nope_dim=12,
        rope_dim=8,
        value_dim=12,
        dense_dim=32,
        experts=4,
        expert_dim=16,
        mtp_layers=mtp_layers,
        context_length=512,
    )


@cache
def tiny_model(arch: str = "hybrid", mode: Mode = "default") -> Model:
    config = tiny_config(arch)
    return Model(config, random_weights(config, 3), mode=mode)


def tiny_options(**changes: object) -> EngineOptions:
    settings: dict[str, object] = {
        "max_model_len": 256,
        "slots": 4,
        "chunk": 48,
        "block_size": 8,
        "state_interval": 16,
        "cache_bytes": 4 << 20,
    }
    return EngineOptions(**(settings | changes))  # type: ignore[arg-type]


def tiny_engine(options: EngineOptions | None = None) -> Engine:
    options = options or tiny_options()
    mode: Mode = "deterministic" if options.deterministic else "bf16" if options.noise == "bf16" else "default"
    model = tiny_model(options.arch, mode)
    return build_engine(options, Served(model=model, config=model.config, text_stream=Letters, eos_ids=(EOS,)))


def ask(request_id: str, prompt: Sequence[int], *, salt: str = "", **sampling: object) -> Request:
    chosen: dict[str, object] = {"temperature": 0.0, "max_tokens": 8, "logprobs": 5, "ignore_eos": True}
    return Request(
        request_id=request_id,
        prompt=tuple(prompt),
        sampling=SamplingParams(**(chosen | sampling)),  # type: ignore[arg-type]
        cache_salt=salt,
    )


def drive(
    engine: Engine,
    requests: Sequence[Request],
    *,
    arrivals: Sequence[int] | None = None,
    aborts: dict[str, int] | None = None,
    steps: int = 3000,
) -> dict[str, Answer]:
    """Submits each request at its step (all at once by default), aborts some at a step, and runs until all is done."""
    due = sorted(zip(arrivals or [0] * len(requests), range(len(requests)), strict=True))
    answers = {request.request_id: Answer() for request in requests}
    for step in range(steps):
        while due and due[0][0] <= step:
            engine.submit(requests[due.pop(0)[1]])
        for request_id, when in (aborts or {}).items():
            if when == step:
                engine.abort(request_id)
        for delta in engine.step():
            answer = answers[delta.request_id]
            answer.tokens += delta.tokens
            answer.text += delta.text
            answer.logprobs += delta.logprobs
            answer.prompt_logprobs = delta.prompt_logprobs or answer.prompt_logprobs
            answer.finish, answer.usage = delta.finish, delta.usage
            answer.deltas += 1
        if not due and not engine.busy:
            return answers
    raise AssertionError("the engine did not finish")


def alone(request: Request, options: EngineOptions) -> Answer:
    """The answer of a fresh engine without a prefix cache that runs nothing else."""
    from dataclasses import replace

    engine = tiny_engine(replace(options, no_prefix_caching=True, cache_bytes=64 << 20, host_bytes=0))
    return drive(engine, [request])[request.request_id]


def largest_gap(one: Answer, other: Answer) -> float:
    """Largest difference of two answers' logprobs, chosen and alternatives; infinite when the tokens differ."""
    if one.tokens != other.tokens:
        return math.inf
    gap = 0.0
    for a, b in zip(one.logprobs, other.logprobs, strict=True):
        gap = max(gap, abs(a.logprob - b.logprob))
        ours, theirs = dict(a.top), dict(b.top)
        gap = max([gap, *(abs(ours[i] - theirs[i]) for i in ours.keys() & theirs.keys())])
    return gap
