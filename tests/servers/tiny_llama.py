"""A tiny attention-only model of architecture ``llama`` with random weights and the embedded engine's tokenizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.reference.tokenizer import Tokenizer
from harness.reference.weights.gguf_export import add_tokenizer

LAYERS, HIDDEN, HEADS, FEED_FORWARD, VOCABULARY, CONTEXT_TOKENS = 4, 128, 4, 256, 512, 16_384
SCALE = 0.05


def write_tiny_llama(path: Path, seed: int = 0) -> None:
    """Writes a GGUF file that llama-server serves; its answers mean nothing, its costs are an attention model's."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(VOCABULARY)
    add_tokenizer(writer, Tokenizer.load())
    rng = np.random.default_rng(seed)
    for name, shape in _shapes().items():
        tensor = np.ones(shape) if "norm" in name else rng.normal(0, SCALE, shape)
        writer.add_tensor(name, tensor.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCABULARY, HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "output.weight": (VOCABULARY, HIDDEN),
    }
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        shapes |= {f"{block}.attn_{part}.weight": (HIDDEN, HIDDEN) for part in ("q", "k", "v", "output")}
        shapes |= {f"{block}.{part}_norm.weight": (HIDDEN,) for part in ("attn", "ffn")}
        shapes |= {f"{block}.ffn_{part}.weight": (FEED_FORWARD, HIDDEN) for part in ("gate", "up")}
        shapes[f"{block}.ffn_down.weight"] = (HIDDEN, FEED_FORWARD)
    return shapes
