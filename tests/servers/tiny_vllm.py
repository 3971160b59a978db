"""Writes a tiny model with random weights for vLLM; run by vLLM's own Python, which has torch and transformers.

``python tiny_vllm.py attention|hybrid|ling FOLDER``: Qwen3 (attention in every layer), Qwen3-Next (a recurrent state in
three layers of four), or Ling (a recurrent state in every second layer, and a layer that drafts). The tokenizer has one
token for each byte.
"""

from __future__ import annotations

import sys
from pathlib import Path

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHARED = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "max_position_embeddings": 16384,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "bos_token_id": None,
    "tie_word_embeddings": False,
}


def write_tokenizer(folder: Path) -> int:
    """Bytes and three special tokens; returns how many tokens there are."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=16384
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    return len(alphabet)


def model_of(kind: str, vocabulary: int) -> object:
    """The model, on the CPU, with weights drawn from one seed."""
    import torch
    import transformers

    torch.manual_seed(0)
    if kind == "attention":
        config = transformers.Qwen3Config(vocab_size=vocabulary, num_hidden_layers=2, **SHARED)
        return transformers.Qwen3ForCausalLM(config)
    config = transformers.Qwen3NextConfig(
        vocab_size=vocabulary,
        num_hidden_layers=4,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=64,
        num_experts_per_tok=2,
        num_experts=8,
        **SHARED,
    )
    return transformers.Qwen3NextForCausalLM(config)


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind not in ("attention", "hybrid", "ling"):
        sys.exit(__doc__)
    vocabulary = write_tokenizer(folder)
    if kind == "ling":
        from tiny_ling import write_ling

        write_ling(folder, vocabulary)
        return
    import torch

    model = model_of(kind, vocabulary)
    generator = torch.Generator().manual_seed(1)
    for name, weight in model.named_parameters():  # type: ignore[attr-defined]
        if weight.ndim >= 2 and "norm" not in name:
            weight.data = torch.randn(weight.shape, generator=generator) * (1.0 if "embed" in name else 0.08)
    model.to(torch.bfloat16).save_pretrained(folder)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
