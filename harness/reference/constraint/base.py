"""What a generated sequence must look like, as an automaton over tokens."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


class Constraint(Protocol):
    """One state of an automaton; immutable, so that a rejected draft leaves no trace."""

    def allowed(self) -> Mask | None:
        """Tokens that may come next, ``[vocab_size]``; None when all may."""
        ...

    def advance(self, token: int) -> Constraint:
        """The state after a token."""
        ...

    def finished(self) -> bool:
        """Whether nothing more may come."""
        ...
