"""Taking rejected drafts back out of the state."""

from __future__ import annotations

from harness.reference.model.state import LiveState
from harness.reference.scheduler.forward import KeptStates


class Rollback:
    """Puts slots back to where they were inside a verify step."""

    def __init__(self, state: LiveState) -> None:
        self.state = state

    def rewind(self, states: KeptStates, row: int, slot: int, kept: int) -> None:
        """Leaves the first ``kept`` tokens of the step in the slot: latents, recurrent and convolution state."""
        states.rewind(self.state, row, slot, kept)
