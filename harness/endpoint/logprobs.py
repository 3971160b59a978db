"""Log-probabilities of generated positions, whatever shape the server gave them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records import TokenLogprob


def positions(logprobs: object) -> tuple[TokenLogprob, ...]:
    """The positions inside a choice's `logprobs`; empty if there are none or the shape is not known.

    Chat shape: {"content": [{token, logprob, top_logprobs}]}; llama.cpp uses it for completions too. Legacy
    completions shape: {"tokens", "token_logprobs", "top_logprobs"}. There can be fewer positions than tokens:
    llama.cpp merges tokens that form one character.
    """
    if not isinstance(logprobs, Mapping):
        return ()
    content = logprobs.get("content")
    if isinstance(content, Sequence):
        return tuple(_chat_position(entry) for entry in content if isinstance(entry, Mapping))
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if isinstance(tokens, Sequence) and isinstance(values, Sequence):
        tops = logprobs.get("top_logprobs")
        padded = list(tops) if isinstance(tops, Sequence) else []
        padded += [None] * (len(tokens) - len(padded))
        return tuple(
            TokenLogprob(token=str(token), logprob=_number(value), top=_legacy_top(top))
            for token, value, top in zip(tokens, values, padded, strict=False)
        )
    return ()


def count_positions(logprobs: object) -> int | None:
    """How many positions `positions` would give, without making them; None without logprobs."""
    if not isinstance(logprobs, Mapping):
        return None
    for name in ("content", "tokens"):
        entries = logprobs.get(name)
        if isinstance(entries, Sequence):
            return len(entries)
    return None


def _chat_position(entry: Mapping[str, object]) -> TokenLogprob:
    top = entry.get("top_logprobs")
    pairs = [(str(one.get("token")), _number(one.get("logprob"))) for one in top] if isinstance(top, Sequence) else []
    token_id = entry.get("id")
    return TokenLogprob(
        token=str(entry.get("token")),
        logprob=_number(entry.get("logprob")),
        top=tuple((token, logprob) for token, logprob in pairs if logprob is not None),
        token_id=token_id if isinstance(token_id, int) else None,
    )


def _legacy_top(top: object) -> tuple[tuple[str, float], ...]:
    if not isinstance(top, Mapping):
        return ()
    return tuple((str(token), float(value)) for token, value in top.items() if isinstance(value, int | float))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
