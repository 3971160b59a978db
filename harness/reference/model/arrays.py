"""Array types of the engine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
U16 = npt.NDArray[np.uint16]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Ints = I32 | I64


def to_bf16(x: F32) -> U16:
    """The upper half of each float32, rounded to nearest even: bfloat16 bits."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def from_bf16(bits: U16) -> F32:
    """The float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_bf16(x: F32) -> F32:
    """``x`` rounded to the nearest bfloat16 value, kept as float32."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits
    rounded &= np.uint32(0xFFFF0000)
    return rounded.view(np.float32)
