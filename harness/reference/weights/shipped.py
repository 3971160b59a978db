"""The weights that come with the package: stored as bfloat16 bits, compressed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.reference.config import Arch, ModelConfig, preset
from harness.reference.model.arrays import F32, from_bf16, to_bf16


def load(arch: Arch) -> tuple[ModelConfig, dict[str, F32]]:
    """Sizes and weights of a shipped model."""
    with as_file(files("harness.reference") / "data" / f"{arch}.npz") as path:
        return preset(arch), read_weights(path)


def read_weights(path: Path) -> dict[str, F32]:
    """Weights from a file ``write_weights`` made."""
    with np.load(path) as stored:
        return {name: from_bf16(stored[name]) for name in stored.files}


def write_weights(path: Path, weights: Mapping[str, F32]) -> None:
    """Stores weights rounded to bfloat16."""
    stored: dict[str, npt.ArrayLike] = {name: to_bf16(value) for name, value in weights.items()}
    np.savez_compressed(path, allow_pickle=False, **stored)
