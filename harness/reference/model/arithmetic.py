"""How a model multiplies and rounds: plain, bit-reproducible, or with the noise of a bfloat16 server."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from harness.reference.model.arrays import F32, round_bf16

Mode = Literal["default", "deterministic", "bf16"]


class Arithmetic(Protocol):
    """The two acts in which the modes differ."""

    row_independent: bool
    """Whether a row's result never depends on the rows beside it."""

    def project(self, x: F32, weight: F32) -> F32:
        """``x @ weight`` for ``x`` of shape ``[rows, in]``."""
        ...

    def keep(self, x: F32) -> F32:
        """``x`` as it is stored between layers."""
        ...


class Plain:
    """float32 throughout; a row's last bits depend on the batch (the BLAS picks its kernel by shape)."""

    row_independent = False

    def project(self, x: F32, weight: F32) -> F32:
        """One matrix product."""
        return x @ weight

    def keep(self, x: F32) -> F32:
        """``x`` itself."""
        return x


class RowByRow:
    """float32, one product of unchanging shape per row: the same bits whatever the batch or the chunking."""

    row_independent = True

    def project(self, x: F32, weight: F32) -> F32:
        """One vector-matrix product per row."""
        product: F32 = np.matmul(x[:, None, :], weight)
        return product[:, 0]

    def keep(self, x: F32) -> F32:
        """``x`` itself."""
        return x


class Bfloat16:
    """Activations in bfloat16, sums split by batch size as split-K kernels do: noise that follows the traffic.

    The same call repeats to the bit; the same token in a batch of another size does not.
    """

    row_independent = False

    def project(self, x: F32, weight: F32) -> F32:
        """A product summed in 1 to 4 parts, by the number of rows, and rounded after each part."""
        parts = 1 + len(x) % 4
        edges = [len(weight) * part // parts for part in range(parts + 1)]
        total = round_bf16(x[:, : edges[1]] @ weight[: edges[1]])
        for start, stop in pairwise(edges[1:]):
            piece: F32 = x[:, start:stop] @ weight[start:stop]
            piece += total
            total = round_bf16(piece)
        return total

    def keep(self, x: F32) -> F32:
        """``x`` rounded to bfloat16."""
        return round_bf16(x)


ARITHMETIC: dict[Mode, type[Plain] | type[RowByRow] | type[Bfloat16]] = {
    "default": Plain,
    "deterministic": RowByRow,
    "bf16": Bfloat16,
}
