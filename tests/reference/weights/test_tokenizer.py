from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reference.tokenizer import SPECIAL_TOKENS, StreamDecoder, Tokenizer

_TOKENIZER = Tokenizer.load()


@settings(deadline=None)
@given(st.text(max_size=60))
def test_ordinary_text_survives_encoding(text: str) -> None:
    assert _TOKENIZER.decode(_TOKENIZER.encode(text, special=False)) == text


def test_special_tokens_are_single_ids_unless_told_otherwise() -> None:
    assert [_TOKENIZER.encode(token) for token in SPECIAL_TOKENS] == [[index] for index in range(len(SPECIAL_TOKENS))]
    for token in SPECIAL_TOKENS:
        spelled = _TOKENIZER.encode(f"{token}{token}", special=False)
        assert min(spelled) >= len(SPECIAL_TOKENS)
        assert _TOKENIZER.decode(spelled) == token * 2


def test_control_tokens_are_not_text_but_markers_are() -> None:
    assert _TOKENIZER.decode(_TOKENIZER.encode("a<|im_end|><think>b")) == "a<think>b"
    assert _TOKENIZER.token_text(_TOKENIZER.id_of("<|im_end|>")) == "<|im_end|>"


def test_digits_are_never_merged() -> None:
    for number in ("7", "4821", "1234567890"):
        assert len(_TOKENIZER.encode(number)) == len(number)


@given(st.text(max_size=20), st.integers(1, 4))
@settings(deadline=None)
def test_streamed_text_equals_the_whole(text: str, step: int) -> None:
    ids = _TOKENIZER.encode(text, special=False)
    decoder = StreamDecoder(_TOKENIZER)
    pieces = [decoder.push(ids[i : i + step]) for i in range(0, len(ids), step)]
    assert "".join(pieces) + decoder.finish() == text


def test_an_unfinished_character_is_held_back_then_replaced() -> None:
    decoder = StreamDecoder(_TOKENIZER)
    first = _TOKENIZER.encode("漢")[:1]
    assert decoder.push(first) == ""
    assert decoder.finish() == "�"


def test_a_chat_with_tools_calls_and_reasoning_is_rendered() -> None:
    call = {"function": {"name": "search", "arguments": '{"query": "x"}'}}
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "none"},
    ]
    text = _TOKENIZER.render_chat(messages, [{"type": "function", "function": {"name": "search"}}])
    assert text.startswith('<|im_start|>system\n# Tools\n{"')
    assert "<think>\nhm\n</think>" in text
    inner = text.split("<tool_call>\n")[1].split("\n</tool_call>")[0]
    assert json.loads(inner) == {"name": "search", "arguments": {"query": "x"}}
    assert text.endswith("<|im_start|>tool\nnone<|im_end|>\n<|im_start|>assistant\n")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(KeyError):
        _TOKENIZER.id_of("<|nothing|>")
