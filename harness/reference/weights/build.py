"""Builds everything that ships in ``harness/reference/data``: the tokenizer and the weights of both models.

``OPENBLAS_NUM_THREADS=1 python -m harness.reference.weights.build --out DIR`` takes about two minutes of one core and
needs no files or network. It repeats to the bit on one machine; another BLAS may round the fitted head differently.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from random import Random

from harness.reference.config import Arch, preset
from harness.reference.model.arrays import F32
from harness.reference.model.model import Model
from harness.reference.tokenizer import Tokenizer
from harness.reference.weights import corpus
from harness.reference.weights.codes import ANSWER, SYMBOL_DIM, token_codes
from harness.reference.weights.construct import Construction
from harness.reference.weights.head import fit_head, hidden_and_next
from harness.reference.weights.shipped import write_weights
from harness.reference.weights.tokenizer_training import train_tokenizer

SEED = 1
_VOCAB_SIZE = 512
_DOCUMENTS = 160
_FACT_DOCUMENTS = 120
_REPEAT_DOCUMENTS = 40
_DOCUMENT_TOKENS = 1500
_FIT_STEPS = 1200
_TEMPLATE = "chat_template.jinja"


def training_texts() -> list[str]:
    """Text for the tokenizer: all kinds of document, without the names of special tokens."""
    rng = Random(SEED)
    texts = corpus.corpus(SEED, _DOCUMENTS) + [corpus.facts(rng, 5, 3) for _ in range(_FACT_DOCUMENTS // 2)]
    return [re.sub(r"<[|/a-z_]*>", "", text) for text in texts]


def training_documents(tokenizer: Tokenizer) -> list[list[int]]:
    """Token sequences for the head: text, facts asked again, and stretches repeated over and over."""
    rng = Random(SEED + 1)
    texts = [tokenizer.encode(text)[:_DOCUMENT_TOKENS] for text in corpus.corpus(SEED, _DOCUMENTS)]
    facts = [tokenizer.encode(corpus.facts(rng, rng.randrange(2, 7), 3)) for _ in range(_FACT_DOCUMENTS)]
    repeats = []
    for _ in range(_REPEAT_DOCUMENTS):
        period = rng.choice((20, 40, 80, 150))
        stretch = tokenizer.encode(corpus.prose(rng, 6))[:period]
        repeats.append(stretch * (600 // period))
    return texts + facts + repeats


def build_weights(arch: Arch, tokenizer: Tokenizer) -> dict[str, F32]:
    """Weights of one model: closed form, then the fitted head."""
    config = preset(arch)
    texts = [tokenizer.token_text(token_id) for token_id in range(tokenizer.vocab_size)]
    weights = Construction(config, token_codes(texts, SEED), SEED).build()
    inputs, targets = hidden_and_next(Model(config, weights), training_documents(tokenizer))
    groups = (slice(ANSWER.start, ANSWER.start + SYMBOL_DIM), slice(ANSWER.start + SYMBOL_DIM, ANSWER.stop))
    head = weights["lm_head.weight"]
    weights["lm_head.weight"] = fit_head(head, inputs, targets, groups, steps=_FIT_STEPS, seed=SEED)
    return weights


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Build the embedded models' tokenizer and weights.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    template = (Path(__file__).parent.parent / "data" / _TEMPLATE).read_text(encoding="utf-8")
    definition = train_tokenizer(training_texts(), _VOCAB_SIZE)
    (out / "tokenizer.json").write_text(definition, encoding="utf-8")
    tokenizer = Tokenizer(definition, template)
    arches: tuple[Arch, ...] = ("hybrid", "attention")
    for arch in arches:
        path = out / f"{arch}.npz"
        write_weights(path, build_weights(arch, tokenizer))
        size_bytes = path.stat().st_size
        print(f"{path}: {size_bytes} bytes")


if __name__ == "__main__":
    main()
