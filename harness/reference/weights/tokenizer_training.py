"""Trains the byte-level BPE."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from harness.reference.tokenizer import SPECIAL_TOKENS


def train_tokenizer(documents: Sequence[str], vocab_size: int) -> str:
    """The tokenizer's JSON definition.

    Digits are kept apart in training, so that no merge ever holds one; splitting with GPT-2's pattern afterwards then
    gives what llama.cpp's "gpt-2" pre-tokenizer gives.
    """
    bpe = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(documents, trainer)
    bpe.pre_tokenizer = byte_level
    bpe.decoder = decoders.ByteLevel()
    return str(bpe.to_str(pretty=True))
