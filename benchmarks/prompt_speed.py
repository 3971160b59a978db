"""How long making 1,000 prompts of 32K exact tokens takes, with the tokenizer of the embedded engine."""

from __future__ import annotations

import argparse
import random
import time

from harness.reference.tokenizer import Tokenizer
from workloads.ruler import TextRuler, additive, candidate_pieces, make_pool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=32_000)
    options = parser.parse_args()
    tokenizer = Tokenizer.load()
    begin_s = time.perf_counter()
    pool = make_pool(candidate_pieces(), lambda text: len(tokenizer.encode(text)))
    holds = additive(pool, lambda text: len(tokenizer.encode(text)))
    pool_s = time.perf_counter() - begin_s
    ruler = TextRuler(pool=pool, template_tokens=0, chat=True)
    begin_s = time.perf_counter()
    lengths = [len(str(ruler.prompt(f"bench/{number}", options.tokens))) for number in range(options.prompts)]
    made_s = time.perf_counter() - begin_s
    sample = ruler.pool.text(random.Random(1), options.tokens)
    print(f"pool {pool_s:.2f} s (counts add up: {holds}); {options.prompts} prompts of {options.tokens:,} tokens")
    print(
        f"({sum(lengths) / 1e6:.0f} MB) in {made_s:.2f} s; one counted again: {len(tokenizer.encode(sample)):,} tokens"
    )


if __name__ == "__main__":
    main()
