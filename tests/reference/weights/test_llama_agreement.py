"""The shipped hybrid against a real llama-server that runs its GGUF export."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TypedDict

import numpy as np
import pytest

from harness.reference.model.model import Model
from harness.reference.model.numerics import log_softmax
from harness.reference.model.state import LiveState
from harness.reference.tokenizer import Tokenizer
from harness.reference.weights import corpus
from harness.reference.weights.gguf_export import export_gguf
from harness.reference.weights.shipped import load
from tests.reference.weights.acceptance import accepted_drafts, greedy
from tests.servers.llama_server import start_llama_server

pytestmark = pytest.mark.llama_server

_EXACT = ("-c", "8192", "-np", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "-cram", "0", "--jinja")
_TOLERANCE_NATS = 1e-3
_ANSWER_TOKENS = 24
_MASKED = -1e30
"""Below this lie the tokens that "ignore_eos" forbids."""


class _Likely(TypedDict):
    id: int
    logprob: float


class _Entry(TypedDict):
    top_logprobs: list[_Likely]


class _Completion(TypedDict):
    tokens: list[int]
    completion_probabilities: list[_Entry]
    timings: dict[str, float]


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(*load("hybrid"))


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "hybrid.gguf"
    export_gguf(path, *load("hybrid"), Tokenizer.load())
    return path


@pytest.fixture(scope="module")
def plain_url(gguf: Path) -> Iterator[str]:
    with start_llama_server(gguf, *_EXACT) as url:
        yield url


def prompts(count: int) -> list[list[int]]:
    """Prompts of 50 to 2,000 tokens of every kind of text."""
    tokenizer, rng = Tokenizer.load(), Random(11)
    out = []
    for index in range(count):
        makers = (
            corpus.prose(rng, 200),
            corpus.facts(rng, 5, 12) + corpus.prose(rng, 100),
            corpus.transcript(rng, 30),
            corpus.records(rng, 90),
        )
        length = int(50 * 40 ** (index / (count - 1)))
        out.append(tokenizer.encode(makers[index % 4])[:length])
    return out


def complete(url: str, prompt: list[int], count: int, top: int) -> _Completion:
    """A greedy completion; with ``top`` 0 without probabilities."""
    body = {
        "prompt": prompt, "n_predict": count, "temperature": 0, "n_probs": top, "cache_prompt": False,
        "return_tokens": True, "ignore_eos": True,
    }  # fmt: skip
    request = urllib.request.Request(
        f"{url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        answer: _Completion = json.load(response)
    return answer


@pytest.mark.parametrize("prompt", prompts(20), ids=lambda prompt: f"{len(prompt)} tokens")
def test_greedy_tokens_and_top_logprobs_agree(model: Model, plain_url: str, prompt: list[int]) -> None:
    answer = complete(plain_url, prompt, _ANSWER_TOKENS, 20)
    state = LiveState(model.config, 1, len(prompt) + _ANSWER_TOKENS)
    hidden = model.prefill(state, 0, np.array(prompt))[-1:]
    # An incomplete UTF-8 character merges llama-server's entries: from there on they no longer belong to single tokens.
    entries = answer["completion_probabilities"]
    assert len(entries) == len(answer["tokens"]) == _ANSWER_TOKENS
    for token, entry in zip(answer["tokens"], entries, strict=True):
        ours = log_softmax(model.logits(hidden))[0]
        theirs = {likely["id"]: likely["logprob"] for likely in entry["top_logprobs"]}
        assert len(theirs) == 20
        shifts = [abs(ours[token_id] - logprob) for token_id, logprob in theirs.items() if logprob > _MASKED]
        assert max(shifts) < _TOLERANCE_NATS
        ours[list(Tokenizer.load().eos_ids)] = -np.inf
        assert ours.max() - ours[token] < _TOLERANCE_NATS
        hidden = model.step(state, np.array([0]), np.array([[token]]))[0]


def test_tokens_and_chat_prompts_agree(plain_url: str) -> None:
    tokenizer = Tokenizer.load()

    def post(path: str, body: dict[str, object]) -> dict[str, object]:
        request = urllib.request.Request(f"{plain_url}{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as response:
            answer: dict[str, object] = json.load(response)
        return answer

    for text in ('key K17 is  4821. x=[1, 22]\n\n  {"a": 3.5e7}', "é漢 don't   99", corpus.code(Random(0), 2)):
        assert post("/tokenize", {"content": text})["tokens"] == tokenizer.encode(text)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is key K17 known?"}]
    rendered = post("/apply-template", {"messages": messages})["prompt"]
    assert rendered == tokenizer.render_chat(messages)


def test_draft_acceptance_agrees(model: Model, gguf: Path) -> None:
    tokenizer, rng = Tokenizer.load(), Random(3)
    texts = [corpus.prose(rng, 40), corpus.records(rng, 20), corpus.prose(rng, 4) * 6, corpus.transcript(rng, 6)]
    with start_llama_server(gguf, *_EXACT, "--spec-type", "draft-mtp", "--spec-draft-n-max", "1") as url:
        for text in texts:
            prompt = tokenizer.encode(text)[:600]
            answer = complete(url, prompt, 100, 0)
            assert answer["tokens"] == greedy(model, prompt, 100, tokenizer.eos_ids)
            made, accepted = accepted_drafts(model, prompt, answer["tokens"])
            there, accepted_there = answer["timings"]["draft_n"], answer["timings"]["draft_n_accepted"]
            assert abs(accepted / made - accepted_there / there) <= 2 / 50
