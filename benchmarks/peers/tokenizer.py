"""A small tokenizer in the folder layout that other clients read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"
PIECES = 4096


def make_tokenizer(folder: Path) -> Path:
    """A byte-level BPE trained on this project's pages; returns the folder."""
    folder.mkdir()
    pages = sorted(Path(__file__).parents[2].glob("docs/*.md"))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((page.read_text() for page in pages), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    marks = {"bos_token": END, "eos_token": END, "pad_token": END}
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **marks})
    _write(folder / "special_tokens_map.json", marks)
    size = tokenizer.get_vocab_size()
    _write(folder / "config.json", {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": size})
    return folder


def _write(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content))
