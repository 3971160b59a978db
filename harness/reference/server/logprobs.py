"""Logprobs in the shapes of the OpenAI API."""

from __future__ import annotations

from collections.abc import Sequence

from harness.reference.sampling import TokenLogprob
from harness.reference.tokenizer import Tokenizer

Json = dict[str, object]


def chat_shape(tokenizer: Tokenizer, logprobs: Sequence[TokenLogprob], *, with_ids: bool = False) -> Json:
    """``{"content": [{token, logprob, bytes, top_logprobs}]}``; llama.cpp adds the ids."""

    def entry(token: int, logprob: float) -> Json:
        named: Json = {"id": token} if with_ids else {}
        return {
            **named,
            "token": tokenizer.token_text(token),
            "logprob": logprob,
            "bytes": list(tokenizer.token_bytes(token)),
        }

    content = [
        {**entry(item.token, item.logprob), "top_logprobs": [entry(token, value) for token, value in item.top]}
        for item in logprobs
    ]
    return {"content": content}


def legacy_shape(
    tokenizer: Tokenizer, logprobs: Sequence[TokenLogprob | None], offset: int | None, tokens: Sequence[int]
) -> Json:
    """``{text_offset, token_logprobs, tokens, top_logprobs}``; entries without a logprob are null.

    ``offset`` is that of the first token in the answer's text, None for servers that say -1 throughout. Of equal texts
    in one ``top_logprobs`` the likelier wins. The chosen token is added when it is not among the likeliest.
    """
    texts = [tokenizer.token_text(token) for token in tokens]
    offsets, position = [], offset
    for text in texts:
        offsets.append(-1 if position is None else position)
        position = None if position is None else position + len(text)
    return {
        "text_offset": offsets,
        "token_logprobs": [None if item is None else item.logprob for item in logprobs],
        "tokens": texts,
        "top_logprobs": [None if item is None else _top(tokenizer, item) for item in logprobs],
    }


def _top(tokenizer: Tokenizer, item: TokenLogprob) -> dict[str, float]:
    table: dict[str, float] = {}
    for token, value in (*item.top, (item.token, item.logprob)):
        table.setdefault(tokenizer.token_text(token), value)
    return table


def vllm_prompt_shape(tokenizer: Tokenizer, logprobs: Sequence[TokenLogprob | None]) -> list[Json | None]:
    """``[null, {"id": {logprob, rank, decoded_token}}, ...]``: the prompt's token first, then the likeliest."""
    return [None if item is None else _vllm_entry(tokenizer, item) for item in logprobs]


def _vllm_entry(tokenizer: Tokenizer, item: TokenLogprob) -> Json:
    def entry(token: int, logprob: float, rank: int) -> Json:
        return {"logprob": logprob, "rank": rank, "decoded_token": tokenizer.token_text(token)}

    table: Json = {str(item.token): entry(item.token, item.logprob, item.rank)}
    for rank, (token, value) in enumerate(item.top, 1):
        table.setdefault(str(token), entry(token, value, rank))
    return table
