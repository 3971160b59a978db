"""Running the model on slots of the live state."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from harness.reference.model.arrays import F32, I64
from harness.reference.model.state import LiveState


class KeptStates(Protocol):
    """States after each token of a verify step."""

    def rewind(self, state: LiveState, row: int, slot: int, kept: int) -> None:
        """Puts a slot to where it was after the first ``kept`` (1 or more) of the row's tokens."""
        ...


class LanguageModel(Protocol):
    """What the engine needs of a model; hidden vectors are those after the final norm."""

    def prefill(self, state: LiveState, slot: int, tokens: I64) -> F32:
        """Advances one slot by ``n`` tokens: hidden ``[n, H]``."""
        ...

    def step(self, state: LiveState, slots: I64, tokens: I64) -> F32:
        """Advances ``B`` slots by ``tokens [B, n]``: hidden ``[B, n, H]``."""
        ...

    def verify(self, state: LiveState, slots: I64, tokens: I64) -> tuple[F32, KeptStates]:
        """As ``step``, and keeps the states between the tokens."""
        ...

    def logits(self, hidden: F32) -> F32:
        """``[..., H]`` to ``[..., V]``."""
        ...

    def draft_prefill(self, state: LiveState, slot: int, next_tokens: I64, hidden: F32, start: int) -> None:
        """Writes the MTP latents of tokens from ``start`` on, given each one's hidden vector and successor."""
        ...

    def draft_step(self, state: LiveState, slots: I64, tokens: I64, hidden: F32, positions: I64) -> tuple[F32, F32]:
        """One MTP step per row at ``positions``: logits ``[B, V]`` for two tokens on, and the MTP hidden ``[B, H]``."""
        ...


class ForwardRunner:
    """The engine's calls to the model, one method for each kind."""

    def __init__(self, model: LanguageModel, state: LiveState) -> None:
        self.model = model
        self.state = state

    def prefill(self, slot: int, tokens: list[int]) -> F32:
        """One piece of a prompt; the state it leaves is what the next piece starts from."""
        return self.model.prefill(self.state, slot, np.asarray(tokens, np.int64))

    def decode(self, slots: list[int], tokens: list[int]) -> F32:
        """One token for each of several slots: hidden ``[B, H]``."""
        column = np.asarray(tokens, np.int64)[:, None]
        return np.asarray(self.model.step(self.state, np.asarray(slots, np.int64), column)[:, 0])

    def verify(self, slots: list[int], tokens: I64) -> tuple[F32, KeptStates]:
        """The newest token and its drafts for each of several slots, ``[B, n]``."""
        return self.model.verify(self.state, np.asarray(slots, np.int64), tokens)

    def logits(self, hidden: F32) -> F32:
        """Logits of hidden vectors."""
        return self.model.logits(hidden)
