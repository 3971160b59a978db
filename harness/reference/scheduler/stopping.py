"""Turning tokens to text and knowing when to stop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from harness.reference.sampling import SamplingParams
from harness.reference.scheduler.request import Finish, FinishReason


class TextStream(Protocol):
    """Tokens in, text out; incomplete UTF-8 is held back."""

    def push(self, ids: Sequence[int]) -> str:
        """The text that these tokens complete."""
        ...

    def finish(self) -> str:
        """What was held back, with replacement characters for what never became complete."""
        ...


class OutputText:
    """The text of one answer, cut at the first stop string.

    Characters that may be the beginning of a stop string are held back until the next tokens decide.
    """

    def __init__(self, stream: TextStream, stop: tuple[str, ...]) -> None:
        self._stream = stream
        self._stop = stop
        self._held_back = max((len(text) for text in stop), default=1) - 1
        self._unsent = ""

    def push(self, token: int) -> str | None:
        """Takes one token; the stop string it completed, or None."""
        self._unsent += self._stream.push((token,))
        hits = [(self._unsent.find(text), text) for text in self._stop if text in self._unsent]
        if not hits:
            return None
        at, text = min(hits)
        self._unsent = self._unsent[:at]
        self._held_back = 0
        return text

    def take(self) -> str:
        """Text that can be sent now."""
        ready = len(self._unsent) - self._held_back
        if ready <= 0:
            return ""
        text, self._unsent = self._unsent[:ready], self._unsent[ready:]
        return text

    def finish(self, *, stopped: bool) -> str:
        """The rest of the text; ``stopped`` says that a stop string cut it, so that held-back bytes are dropped too."""
        text = self._unsent if stopped else self._unsent + self._stream.finish()
        self._unsent = ""
        return text


def finish_of(
    token: int, generated: int, sampling: SamplingParams, eos_ids: Collection[int], room: int
) -> Finish | None:
    """Whether a token ends its sequence, stop strings aside.

    ``generated`` counts it; ``room`` is how many more tokens the context holds.
    """
    if generated >= sampling.min_tokens:
        if token in eos_ids and not sampling.ignore_eos:
            return Finish(reason=FinishReason.STOP)
        if token in sampling.stop_token_ids:
            return Finish(reason=FinishReason.STOP, matched=token)
    if generated >= sampling.max_tokens or room <= 0:
        return Finish(reason=FinishReason.LENGTH)
    return None
