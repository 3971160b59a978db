"""Prompts of exact lengths, by text and by token ids."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from harness.reference.tokenizer import Tokenizer as EngineTokenizer
from tests.workloads.playing import asks_of, play
from workloads import WORKLOADS, WorkloadOptions
from workloads.plan import ChatPrompt, TextPrompt, TokenPrompt
from workloads.ruler import (
    LEAD,
    IdsRuler,
    PiecePool,
    TextRuler,
    additive,
    candidate_pieces,
    few_pieces,
    forked,
    make_pool,
    nonce_length,
    with_nonce_pieces,
)

BPE = Tokenizer.from_str(EngineTokenizer.load().definition)


def count(text: str) -> int:
    return len(BPE.encode(text, add_special_tokens=False).ids)


POOL = make_pool(candidate_pieces(), count)


def test_counts_of_pieces_add_up_in_a_byte_level_tokenizer() -> None:
    assert additive(POOL, count) and additive(make_pool(few_pieces(), count), count)


def test_a_tokenizer_that_merges_over_pieces_is_found_out() -> None:
    assert not additive(POOL, lambda text: count(text) - text.count(". The"))


@settings(max_examples=60, deadline=None)
@given(tokens=st.integers(1, 5000), path=st.text())
def test_text_has_exactly_the_asked_length(tokens: int, path: str) -> None:
    prompt = TextRuler(pool=POOL, template_tokens=0, chat=False).prompt(path, tokens)
    assert isinstance(prompt, TextPrompt) and count(prompt.text) == tokens


@pytest.mark.parametrize("tokens", [1, 127, 128, 129, 4095, 4096, 16_000])
def test_template_and_nonce_are_part_of_the_length(tokens: int) -> None:
    nonce_tokens = nonce_length(POOL.single)
    ruler = TextRuler(pool=POOL, template_tokens=count(LEAD) + 7, chat=True, nonce_tokens=nonce_tokens)
    if tokens <= ruler.overhead_tokens:
        with pytest.raises(ValueError, match=f"{ruler.overhead_tokens + 1} is the shortest"):
            ruler.prompt("p", tokens)
        return
    prompt = with_nonce_pieces(ruler.prompt("p", tokens), "n1", POOL.single)
    assert isinstance(prompt, ChatPrompt)
    assert 7 + count(prompt.messages[0].content or "") == tokens


def test_a_nonce_of_pieces_has_64_bits_and_comes_before_the_text() -> None:
    assert len(POOL.single) ** nonce_length(POOL.single) >= 2**64
    ruler = TextRuler(pool=POOL, template_tokens=0, chat=False)
    one, two = (with_nonce_pieces(ruler.prompt("p", 300), nonce, POOL.single) for nonce in ("a", "b"))
    assert isinstance(one, TextPrompt) and isinstance(two, TextPrompt)
    assert one.text != two.text and one.text[-500:] == two.text[-500:] and one.text[:40] != two.text[:40]


def test_a_part_is_the_same_text_wherever_it_stands() -> None:
    ruler = TextRuler(pool=POOL, template_tokens=0, chat=False)
    short, long = ruler.joined([("a", 64), ("b", 64)]), ruler.joined([("a", 64), ("b", 64), ("c", 30)])
    assert isinstance(short, TextPrompt) and isinstance(long, TextPrompt)
    assert long.text.startswith(short.text) and count(long.text) == 158


def test_token_ids_are_exact_by_nature() -> None:
    ruler = IdsRuler(token_ids=(5, 6, 7, 8), template_tokens=1)
    prompt = ruler.prompt("p", 100)
    assert isinstance(prompt, TokenPrompt) and len(prompt.token_ids) == 99
    with pytest.raises(ValueError):
        ruler.prompt("p", 1)


def test_a_pool_without_single_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="one token"):
        PiecePool(pieces=(" ab", " cd"), counts=(2, 2))


def test_a_pool_gives_the_same_text_for_the_same_source() -> None:
    assert POOL.text(random.Random(3), 777) == POOL.text(random.Random(3), 777)


def exact_prompts(name: str, tokens: int) -> list[str]:
    ruler = TextRuler(pool=POOL, template_tokens=0, chat=False)
    options = WorkloadOptions(
        seed=3, requests=8, highest_concurrency=1, warmups=0, input_tokens=tokens, output_tokens=1, ruler=ruler
    )
    asks = sorted(asks_of(play(WORKLOADS[name](options, count))), key=lambda ask: ask.key)
    assert all(ask.expected_prompt_tokens == tokens for ask in asks)
    return [ask.prompt.text for ask in asks if isinstance(ask.prompt, TextPrompt)]


@pytest.mark.parametrize("name", ["repeat", "fork"])
def test_prompts_that_share_a_prefix_can_have_exact_lengths(name: str) -> None:
    texts = exact_prompts(name, 400)
    assert len(texts) == 8 and all(count(text) == 400 for text in texts)
    alike = range(8) if name == "repeat" else range(4)
    shared = next(
        at for at, letters in enumerate(zip(*(texts[at] for at in alike), strict=False)) if len(set(letters)) > 1
    )
    assert 355 <= count(texts[0][:shared]) <= 400 and len(set(texts)) == (5 if name == "repeat" else 8)


def test_a_prompt_without_room_for_a_shared_prefix_says_how_long_it_must_be() -> None:
    with pytest.raises(ValueError, match="3 is the shortest"):
        forked(IdsRuler(token_ids=(5, 6), template_tokens=1), "p", "t", 2, 1)
