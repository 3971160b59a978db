"""Where things lie in the residual stream, and the vector that stands for each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

CODE_DIM = 40
SYMBOL_DIM = 16
"""Digits use the first 16 of a code's dimensions, all other tokens the rest."""

TOKEN = slice(0, 40)
"""The current token's code."""
HISTORY = slice(40, 80)
"""The tokens before it: the sum of their codes, rotated and damped once per step back."""
ANSWER = slice(80, 120)
"""The code of the token to come, as the memories remember it."""
CONSTANT = 120
DIGIT = 121
ASSIGN = 122
"""1 on the words that announce a value: " is"."""
ASSIGNED = 123
"""Above 0 for the six tokens after such a word."""

CONSTANT_SIZE = 4.0
"""Larger than all else, so that RMS norms divide by nearly the same number everywhere and the stream stays linear."""
DAMPING = 0.9
_ASSIGN_WORDS = frozenset({"is"})
_COHERENCE_STEPS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCodes:
    """Codes ``[vocab, CODE_DIM]`` of unit length, saliences and flags ``[vocab]``, and the history's rotation."""

    codes: F64
    salience: F64
    digit: F64
    assign: F64
    rotation: F64

    def shifted(self, steps: int) -> F64:
        """The map ``[CODE_DIM, CODE_DIM]`` that ages a history by ``steps`` tokens: rotated and damped."""
        turned: F64 = np.linalg.matrix_power(self.rotation, steps)
        return turned * DAMPING**steps


def token_codes(texts: Sequence[str], seed: int) -> TokenCodes:
    """Codes for a vocabulary given as plain texts."""
    rng = np.random.default_rng(seed)
    stripped = [text.strip() for text in texts]
    digit = np.array([text.isdigit() for text in stripped])
    return TokenCodes(
        codes=_spread(rng.standard_normal((len(texts), CODE_DIM)), digit),
        salience=np.array([_salience(text) for text in stripped]),
        digit=digit.astype(np.float64),
        assign=np.array([float(text in _ASSIGN_WORDS) for text in stripped]),
        rotation=_block_rotation(rng),
    )


def _salience(stripped: str) -> float:
    """How much a token weighs in the history: names and numbers most, spaces least."""
    if not stripped:
        return 0.6
    return 1.0 if stripped.isdigit() or stripped[0].isupper() else 0.75


def _spread(codes: F64, digit: npt.NDArray[np.bool_]) -> F64:
    """Unit vectors pushed apart by gradient steps on a high power of their products."""
    allowed = np.ones_like(codes)
    allowed[digit, SYMBOL_DIM:] = 0
    allowed[~digit, :SYMBOL_DIM] = 0
    codes = _unit(codes * allowed)
    for _ in range(_COHERENCE_STEPS):
        products = codes @ codes.T
        np.fill_diagonal(products, 0)
        push = (np.sign(products) * np.abs(products) ** 7) @ codes
        worst = np.minimum(1, np.abs(products).max(1, keepdims=True))
        codes = _unit((codes - 0.03 * _unit(push) * worst) * allowed)
    return codes


def _unit(rows: F64) -> F64:
    lengths: F64 = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths, 1e-9)


def _block_rotation(rng: np.random.Generator) -> F64:
    """An orthogonal map that keeps the digits' dimensions among themselves."""
    rotation = np.zeros((CODE_DIM, CODE_DIM))
    rotation[:SYMBOL_DIM, :SYMBOL_DIM] = np.linalg.qr(rng.standard_normal((SYMBOL_DIM, SYMBOL_DIM)))[0]
    rest = CODE_DIM - SYMBOL_DIM
    rotation[SYMBOL_DIM:, SYMBOL_DIM:] = np.linalg.qr(rng.standard_normal((rest, rest)))[0]
    return rotation
