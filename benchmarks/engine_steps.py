"""Time of a healthy engine's prefill and decode, scheduling and caching included; to compare two checkouts.

``OPENBLAS_NUM_THREADS=1 python benchmarks/engine_steps.py [--repeats 7]`` prints the fastest of the repeats as JSON.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from harness.reference.assembly import Served, build_engine
from harness.reference.model.model import Model
from harness.reference.options import EngineOptions
from harness.reference.sampling import SamplingParams
from harness.reference.scheduler.request import Request
from harness.reference.tokenizer import StreamDecoder, Tokenizer
from harness.reference.weights.shipped import load

SEQUENCES = 8
PROMPT_TOKENS = 512
ANSWER_TOKENS = 64


def served() -> Served:
    """The shipped hybrid."""
    config, weights = load("hybrid")
    tokenizer = Tokenizer.load()
    return Served(
        model=Model(config, weights),
        config=config,
        text_stream=lambda: StreamDecoder(tokenizer),
        eos_ids=tokenizer.eos_ids,
    )


def run_once(what: Served, speculative_tokens: int) -> float:
    """Seconds for all prompts and answers on a new engine."""
    options = EngineOptions(max_model_len=1024, slots=SEQUENCES, speculative_tokens=speculative_tokens)
    engine = build_engine(options, what)
    sampling = SamplingParams(temperature=0.0, max_tokens=ANSWER_TOKENS, ignore_eos=True)
    prompts = np.random.default_rng(0).integers(0, what.config.vocab_size, (SEQUENCES, PROMPT_TOKENS))
    for index, prompt in enumerate(prompts.tolist()):
        engine.submit(Request(request_id=str(index), prompt=tuple(prompt), sampling=sampling))
    start = time.process_time()
    while engine.busy:
        engine.step()
    return time.process_time() - start


def main() -> None:
    """Prints CPU seconds without and with drafts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats, what = parser.parse_args().repeats, served()
    plain = min(run_once(what, 0) for _ in range(repeats))
    drafting = min(run_once(what, 2) for _ in range(repeats))
    print(json.dumps({"plain_cpu_s": round(plain, 4), "drafting_cpu_s": round(drafting, 4)}))


if __name__ == "__main__":
    main()
