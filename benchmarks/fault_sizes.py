"""How much each planted fault changes: the table of docs/faults.md.

``OPENBLAS_NUM_THREADS=1 python -m benchmarks.fault_sizes [--prompts 8] [--only K05] [--json FILE]``

The shipped model runs each fault's scenario healthy and faulty. The healthy engine's greedy answer fixes the tokens of
both, so that distributions are compared under equal conditions: KL(healthy || faulty) over the whole vocabulary and
|delta logprob| of the token, by position after the resume point. Free greedy answers of both tell how many change.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import get_args

import numpy as np
import numpy.typing as npt

from benchmarks.fault_scenarios import PROOFS, SCENARIOS, Proof
from benchmarks.fault_traffic import Answer, Material, Player
from harness.reference.assembly import Served, build_engine
from harness.reference.faults.fault import Size
from harness.reference.faults.registry import FAULTS
from harness.reference.faults.spec import parse_fault
from harness.reference.model.arithmetic import Mode
from harness.reference.model.model import Model
from harness.reference.options import EngineOptions
from harness.reference.tokenizer import StreamDecoder, Tokenizer
from harness.reference.weights.corpus import corpus
from harness.reference.weights.shipped import load

F64 = npt.NDArray[np.float64]

ANSWER_TOKENS = 64
SAME_KL = 1e-9
"""Below it two distributions are the same but for rounding: other drafts, other batches."""
BANDS = ((0, 1), (1, 4), (4, 16), (16, 64))
OPTIONS = EngineOptions(max_model_len=1024, slots=6, chunk=256, block_size=16, state_interval=32, cache_bytes=64 << 20)
FREE_ONLY = {"K25"}
"""Sampled answers cannot be fixed: a fixed token leaves nothing to accept wrongly."""


@dataclass(frozen=True)
class Measured:
    """What one mode of one fault does.

    Band values are medians, over the victims that were reached at all, of means over positions.
    """

    code: str
    mode: str
    declared: str
    scenario: str
    victims: int
    reached: int
    kl: tuple[float, ...]
    delta_logprob: tuple[float, ...]
    answers_changed: float
    acceptance: tuple[float, float] | None


class Bench:
    """The shipped model, and texts cut from a corpus by name."""

    def __init__(self, mode: Mode = "default") -> None:
        self.config, weights = load("hybrid")
        self.tokenizer = Tokenizer.load()
        self.served = Served(
            model=Model(self.config, weights, mode=mode),
            config=self.config,
            text_stream=lambda: StreamDecoder(self.tokenizer),
            eos_ids=self.tokenizer.eos_ids,
        )
        self._texts: dict[str, list[int]] = {}

    def material(self, variant: int) -> Material:
        """Texts of one variant: the same names give other documents in another."""

        def text(name: str, count: int) -> list[int]:
            key = f"{variant}/{name}"
            if key not in self._texts:
                seed = Random(key).randrange(2**31)
                self._texts[key] = self.tokenizer.encode("\n".join(corpus(seed, 12)))
            return self._texts[key][:count]

        return text

    def play(
        self,
        scenario: str,
        variant: int,
        *,
        fault: str | None = None,
        follow: Sequence[Sequence[int]] | None = None,
        options: EngineOptions = OPTIONS,
    ) -> list[Answer]:
        """The victims' answers on a new engine."""
        settings = SCENARIOS[scenario].settings(options, self.config)
        engine = build_engine(settings, self.served)
        if fault is not None:
            parse_fault(fault).build().plant(engine)
        material = self.material(variant)
        player = Player(engine, settings, self.config, material, victim_tokens=ANSWER_TOKENS, follow=follow)
        SCENARIOS[scenario].play(player)
        return player.victims


def table_of(answer: Answer) -> F64:
    """Log-probabilities ``[tokens, vocab]``."""
    table = np.empty((len(answer.logprobs), len(answer.logprobs[0].top)))
    for row, entry in enumerate(answer.logprobs):
        ids, values = zip(*entry.top, strict=True)
        table[row, list(ids)] = values
    return table


def distances(healthy: Answer, other: Answer) -> tuple[F64, F64]:
    """KL and |delta logprob| at each position; infinite where the other engine gives no number."""
    p, q = table_of(healthy), table_of(other)
    kl = np.sum(np.exp(p) * (p - q), 1)
    chosen = [entry.token for entry in healthy.logprobs]
    delta = np.abs(p - q)[np.arange(len(chosen)), chosen]
    return np.nan_to_num(np.maximum(kl, 0), nan=np.inf), np.nan_to_num(delta, nan=np.inf)


def banded(rows: list[F64]) -> tuple[float, ...]:
    """Medians over victims of the means over each band of positions; nothing for no victims."""
    if not rows:
        return ()
    return tuple(float(np.median([row[start:stop].mean() for row in rows])) for start, stop in BANDS)


def measure(bench: Bench, code: str, mode: str, proof: Proof, prompts: int) -> Measured:
    """The size of one mode over several variants of its scenario."""
    text = f"{code}:mode={mode}" + (f",{proof.parameters}" if proof.parameters else "")
    gaps: list[tuple[F64, F64]] = []
    pairs: list[tuple[Answer, Answer]] = []
    for variant in range(prompts):
        healthy = bench.play(proof.trigger, variant)
        follow = [answer.tokens for answer in healthy]
        if code not in FREE_ONLY:
            forced = bench.play(proof.trigger, variant, fault=text, follow=follow)
            gaps += [distances(a, b) for a, b in zip(healthy, forced, strict=True)]
        pairs += zip(healthy, bench.play(proof.trigger, variant, fault=text), strict=True)
    reached = [gap for gap in gaps if gap[0].max() > SAME_KL]
    return Measured(
        code=code,
        mode=mode,
        declared=FAULTS[code].info.mode(mode).size,
        scenario=proof.trigger,
        victims=len(pairs),
        reached=len(reached),
        kl=banded([kl for kl, _ in reached]),
        delta_logprob=banded([delta for _, delta in reached]),
        answers_changed=sum(a.tokens != b.tokens for a, b in pairs) / len(pairs),
        acceptance=acceptances(pairs),
    )


def acceptances(pairs: list[tuple[Answer, Answer]]) -> tuple[float, float] | None:
    """Accepted drafts of each drafted, healthy and faulty; None when nothing was drafted."""
    shares = []
    for side in (0, 1):
        counts = [pair[side].usage.speculation for pair in pairs if pair[side].usage is not None]
        drafted = sum(count.drafted for count in counts)
        if not drafted:
            return None
        shares.append(sum(count.accepted for count in counts) / drafted)
    return shares[0], shares[1]


def measure_noise(name: str, options: EngineOptions, prompts: int) -> Measured:
    """A healthy server's hit against its own cold run: what no check may call a bug."""
    bench = Bench("bf16" if options.noise == "bf16" else "default")
    gaps, changed = [], 0
    for variant in range(prompts):
        (cold,) = bench.play("cold", variant, options=options)
        (hit,) = bench.play("resend", variant, options=options, follow=[cold.tokens])
        (free,) = bench.play("resend", variant, options=options)
        gaps.append(distances(cold, hit))
        changed += free.tokens != cold.tokens
    return Measured(
        code="healthy",
        mode=name,
        declared="none",
        scenario="resend against cold",
        victims=prompts,
        reached=prompts,
        kl=banded([kl for kl, _ in gaps]),
        delta_logprob=banded([delta for _, delta in gaps]),
        answers_changed=changed / prompts,
        acceptance=None,
    )


def controls(prompts: int) -> list[Measured]:
    """Healthy variants."""
    bf16 = replace(OPTIONS, noise="bf16")
    return [
        measure_noise("float32", OPTIONS, prompts),
        measure_noise("--noise bf16", bf16, prompts),
        measure_noise("--noise bf16 --hit-offset 0.03", replace(bf16, hit_offset=0.03), prompts),
    ]


def as_row(size: Measured) -> str:
    """One line of the table, in Markdown."""
    kl = [f"{value:.1e}" if np.isfinite(value) else "NaN" for value in size.kl] or ["", "", "", ""]
    delta = [f"{value:.3f}" if np.isfinite(value) else "NaN" for value in size.delta_logprob] or ["", "", "", ""]
    shares = f"{size.acceptance[0]:.2f} to {size.acceptance[1]:.2f}" if size.acceptance else ""
    reached = "" if size.code in FREE_ONLY else f"{size.reached} of {size.victims}"
    cells = [f"{size.code} {size.mode}", size.declared, size.scenario, reached, *kl, *delta]
    return "| " + " | ".join([*cells, f"{size.answers_changed:.0%}", shares]) + " |"


HEADER = (
    "| fault | size | scenario | reached | KL 0 | 1-3 | 4-15 | 16-63 | dlp 0 | 1-3 | 4-15 | 16-63 "
    "| answers changed | drafts accepted |\n" + "|---" * 14 + "|"
)


def frozen_list() -> str:
    """Every mode by size, with what goes wrong and when, in Markdown."""
    rows = ["| size | fault | mode | what goes wrong | trigger |", "|---|---|---|---|---|"]
    for size in get_args(Size):
        for code, fault in FAULTS.items():
            for mode in fault.info.modes:
                if mode.size == size:
                    rows.append(f"| {size} | {code} {fault.info.name} | {mode.name} | {mode.effect} | {mode.trigger} |")
    return "\n".join(rows)


def main() -> int:
    """Prints the table row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=8, help="variants of each scenario")
    parser.add_argument("--only", default="", help="codes that begin so")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--list", action="store_true", help="print the frozen list instead, measuring nothing")
    given = parser.parse_args()
    if given.list:
        print(frozen_list())
        return 0
    print(HEADER, flush=True)
    sizes = []
    for size in controls(given.prompts) if not given.only else []:
        sizes.append(size)
        print(as_row(size), flush=True)
    bench = Bench()
    for (code, mode), proof in PROOFS.items():
        if code.startswith(given.only):
            sizes.append(measure(bench, code, mode, proof, given.prompts))
            print(as_row(sizes[-1]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(size) for size in sizes], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
