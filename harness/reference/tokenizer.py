"""The engine's tokenizer: byte-level BPE with 512 tokens, a chat template, and decoding of a stream."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import jinja2
from tokenizers import Tokenizer as BpeTokenizer

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
"""Ids 0, 1, 2, ... in this order."""
CONTROL_TOKENS = SPECIAL_TOKENS[:3]
"""Never part of an answer's text."""


class Tokenizer:
    """Encodes text, decodes ids and renders chats.

    Attributes:
        definition: the BPE in JSON, as the ``tokenizers`` package writes it.
        chat_template: Jinja source of ``render_chat``.
        vocab_size: number of tokens.
        eos_ids: tokens that end an answer.
    """

    def __init__(self, definition: str, chat_template: str) -> None:
        self._bpe = BpeTokenizer.from_str(definition)
        self.definition = definition
        self.chat_template = chat_template
        environment = jinja2.Environment(trim_blocks=False, lstrip_blocks=False, autoescape=False)
        self._template = environment.from_string(chat_template)
        self.vocab_size: int = self._bpe.get_vocab_size()
        self.eos_ids = frozenset({self.id_of("<|endoftext|>"), self.id_of("<|im_end|>")})
        self._bytes = [self._bytes_of(token_id) for token_id in range(self.vocab_size)]
        self._control = frozenset(self.id_of(token) for token in CONTROL_TOKENS)

    @classmethod
    def load(cls) -> Tokenizer:
        """The shipped tokenizer."""
        return _shipped()

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of ``text``; with ``special`` false, the names of special tokens are ordinary text."""
        if special:
            ids: list[int] = self._bpe.encode(text, add_special_tokens=False).ids
            return ids
        pieces = [text]
        for token in SPECIAL_TOKENS:
            pieces = [part for piece in pieces for part in _broken(piece, token)]
        return [token_id for piece in pieces for token_id in self._bpe.encode(piece, add_special_tokens=False).ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; control tokens give nothing, incomplete UTF-8 gives U+FFFD."""
        return b"".join(self.token_bytes(token_id) for token_id in ids).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """What a token adds to an answer: nothing for control tokens, its name for the other special ones.

        Raises:
            IndexError: no such token.
        """
        return b"" if token_id in self._control else self._bytes[token_id]

    def token_text(self, token_id: int) -> str:
        """A token as logprob listings show it: control tokens by name, incomplete UTF-8 as U+FFFD."""
        return self._bytes[token_id].decode("utf-8", "replace")

    def id_of(self, token: str) -> int:
        """Id of a token by its exact name.

        Raises:
            KeyError: no such token.
        """
        token_id: int | None = self._bpe.token_to_id(token)
        if token_id is None:
            raise KeyError(token)
        return token_id

    def render_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] | None = None,
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt text of a chat, by the template llama-server uses too."""
        return self._template.render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt)

    def vocabulary(self) -> list[str]:
        """Tokens in byte-level spelling, by id."""
        return [str(self._bpe.id_to_token(token_id)) for token_id in range(self.vocab_size)]

    def _bytes_of(self, token_id: int) -> bytes:
        spelled = str(self._bpe.id_to_token(token_id))
        return spelled.encode() if token_id < len(SPECIAL_TOKENS) else bytes(_byte_of()[char] for char in spelled)


class StreamDecoder:
    """Turns ids into text as they come, holding back bytes that do not complete a character yet."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, ids: Sequence[int]) -> str:
        """Text that these ids complete; may be empty."""
        return self._decoder.decode(b"".join(self._tokenizer.token_bytes(token_id) for token_id in ids))

    def finish(self) -> str:
        """What was held back, as U+FFFD."""
        return self._decoder.decode(b"", final=True)


def _broken(text: str, token: str) -> list[str]:
    """``text`` cut inside every occurrence of ``token``, so that no piece contains it."""
    pieces = text.split(token)
    inner = [token[1:] + piece for piece in pieces[1:]]
    return [piece + token[0] for piece in [pieces[0], *inner[:-1]]] + inner[-1:] if inner else pieces


@cache
def _byte_of() -> dict[str, int]:
    """GPT-2's byte spelling: printable bytes stand for themselves, the others for U+0100 upwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spelled = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    spelled.update({chr(256 + index): byte for index, byte in enumerate(others)})
    return spelled


@cache
def _shipped() -> Tokenizer:
    data = files("harness.reference") / "data"
    definition = (data / "tokenizer.json").read_text(encoding="utf-8")
    return Tokenizer(definition, (data / "chat_template.jinja").read_text(encoding="utf-8"))
