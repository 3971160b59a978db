"""How many sequences fit a node beside the weights."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from harness.memory.sequence import Setting, sequence_bytes
from harness.memory.shape import ModelShape

GB = 10**9
# Memory of one GPU in GB, as the model's deployment notes count it (8 x 141 = 1,128 GB; 4 x 288 = 1,152 GB).
GPU_GB = {"H100": 80.0, "H200": 141.0, "GB300": 288.0}
_NODE = re.compile(r"(?P<gpus>\d+)x(?P<kind>[A-Za-z]\w*|\d+(\.\d+)?(GB)?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """GPUs of one machine, and the memory of each."""

    label: str
    gpus: int
    gpu_bytes: int

    def __post_init__(self) -> None:
        if self.gpus < 1 or self.gpu_bytes < 1:
            raise ValueError(f"{self.label}: a node needs at least one GPU with memory")

    @property
    def total_bytes(self) -> int:
        """Memory of all GPUs together."""
        return self.gpus * self.gpu_bytes


def parse_node(text: str) -> Node:
    """Read "8xH200", "4xGB300" or a plain size such as "8x80GB"; ValueError says what is known."""
    found = _NODE.fullmatch(text.strip())
    known = ", ".join(GPU_GB)
    if found is None:
        raise ValueError(f"{text!r} is not a node: write 8xH200 (known: {known}), or the memory of each GPU, 8x80GB")
    kind = found["kind"].upper()
    gigabytes = GPU_GB.get(kind)
    if gigabytes is None and kind[0].isdigit():
        gigabytes = float(kind.removesuffix("GB"))
    if gigabytes is None:
        raise ValueError(f"{text!r}: the memory of {kind} is not known here ({known} are); write it, as in 8x80GB")
    return Node(label=text.strip(), gpus=int(found["gpus"]), gpu_bytes=round(gigabytes * GB))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Sequences of one length that fit a node. None: the model's heads do not split over that many ranks."""

    context_tokens: int
    sessions_tp: int | None
    sessions_dp_attention: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBudget:
    """A node with the weights loaded.

    loaded_bytes: over all GPUs, before any cache. reserve_bytes: activations, graphs and whatever else is kept free.
    """

    node: Node
    loaded_bytes: int
    reserve_bytes: int

    def __post_init__(self) -> None:
        if self.free_bytes <= 0:
            need = (self.loaded_bytes + self.reserve_bytes) / GB
            have = self.node.total_bytes / GB
            raise ValueError(f"{self.node.label} has {have:,.0f} GB, and {need:,.0f} GB are taken")

    @property
    def free_bytes(self) -> int:
        """What is left for caches and states."""
        return self.node.total_bytes - self.loaded_bytes - self.reserve_bytes


def sessions(shape: ModelShape, setting: Setting, budget: NodeBudget, context_tokens: int) -> Sessions:
    """Sequences that fit, under tensor parallelism over `setting.tp` ranks and under data-parallel attention.

    Free memory is shared evenly by the GPUs. Under TP every rank of a group holds its part of every sequence (MLA
    latents whole); under DP attention a sequence lives on one GPU whole.
    """
    per_gpu = budget.free_bytes // budget.node.gpus
    whole = sequence_bytes(shape, replace(setting, tp=1), context_tokens).total_bytes
    split = None
    if shape.heads_divide(setting.tp):
        part = sequence_bytes(shape, setting, context_tokens).total_bytes
        split = budget.node.gpus // setting.tp * (per_gpu // part)
    return Sessions(
        context_tokens=context_tokens,
        sessions_tp=split,
        sessions_dp_attention=budget.node.gpus * (per_gpu // whole),
    )
