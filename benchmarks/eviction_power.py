"""How often the eviction judge accuses a healthy server, and how often it finds a fault, from recorded tuples.

    python benchmarks/eviction_tuples.py CACHE --documents 300 --mode bf16 --tails short
    python benchmarks/eviction_tuples.py CACHE --documents 300 --mode default --faults
    python benchmarks/eviction_power.py CACHE --runs 2000

A run draws m documents for the first look and, if it alarms, 2m others to confirm, half of them with long tails, and
puts their pairs through the same pure functions that judge a live history. Every second score of documents is held out:
thresholds were looked at on the others only (`--part tuning`).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from eviction_tuples import BLOCK, LONG_TAILS, SHORT_TAILS

from harness.checks.eviction.arms import PromptArms, Shot
from harness.checks.eviction.decision import Decision, decide, passing_effect
from harness.checks.eviction.judge import of_all_prompts
from harness.checks.eviction.pairs import Pair, pairs_of
from harness.records import TokenLogprob

TOP, VOCABULARY = 20, 512
PASS_EFFECT = 0.35
Tuple = tuple[np.ndarray, np.ndarray]
_FIRST: dict[bool, tuple[TokenLogprob, ...]] = {
    False: (),
    True: (TokenLogprob(token="the prompt's last", logprob=0.0, top=()),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """sigma: nats that change with every request. offset: a lasting one of all hits; near: of short tails alone."""

    name: str
    mode: str = "default"
    sigma: float = 0.0
    offset: float = 0.0
    near: float = 0.0
    aligned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Which recording each arm reads; `share` is the part of the prompts that the fault hits."""

    name: str
    faulty: Mapping[str, str] = field(default_factory=dict)
    share: float = 1.0
    near: str = "near"
    returned_warm: bool = False


HEALTHY_ARMS = {
    "virgin": ("cold/healthy", "cold/healthy"),
    "stepped": ("cold/healthy",),
    "cotraffic-cold": ("cold/traffic",),
    "hit": ("near/healthy", "near/healthy"),
    "cotraffic-hit": ("near/traffic",),
    "far": ("far/healthy",),
    "returned": ("cold/healthy",),
    "refilled": ("near/healthy", "near/healthy"),
    "refilled-decode": ("near/decode_filled",),
}
LOADS = {"hit": "near", "cotraffic-hit": "near", "far": "far", "refilled": "near", "refilled-decode": "near"}


def load_fault(name: str, *, far: bool = True, share: float = 1.0) -> Scenario:
    """A fault of every load of a snapshot."""
    arms = {arm: f"{path}/{name}" for arm, path in LOADS.items() if far or arm != "far"}
    label = name if share == 1 else f"{name} in {share:.0%} of prompts"
    return Scenario(name=label, faulty=arms, share=share)


NOISES = (
    Noise(name="none"),
    Noise(name="bf16", mode="bf16"),
    Noise(name="bf16, offset .03", mode="bf16", offset=0.03),
    Noise(name="noise .02", sigma=0.02),
    Noise(name="noise .06", sigma=0.06),
    Noise(name="offset .1 + noise .06", sigma=0.06, offset=0.1),
    Noise(name="offset .25 + noise .06", sigma=0.06, offset=0.25),
    Noise(name="near-only .1 + noise .02", sigma=0.02, near=0.1),
    Noise(name="near-only .25 + noise .02", sigma=0.02, near=0.25),
    Noise(name="near-only .25 + noise .06", sigma=0.06, near=0.25),
)
HEALTHY = (
    Scenario(name="healthy"),
    Scenario(name="healthy, MTP drops a block", near="previous"),
    Scenario(name="healthy, host tier", returned_warm=True),
)
FULL = (
    "K01",
    "K03_early",
    "K03_late",
    "K04",
    "K05",
    "K06",
    "K08_one_layer",
    "K09",
    "K10",
    "K12_foreign_state",
    "K29_swapped",
)
NEAR = ("K02_garbage", "K03_early_one", "K08_rolled", "K23", "K07_bf16", "K07_fp8", "K07_four_bits")
FAULTS = (
    *(load_fault(name) for name in FULL),
    *(load_fault(name, far=False) for name in NEAR),
    Scenario(name="K28 on all returned", faulty={"returned": "near/K28"}, returned_warm=True),
    Scenario(name="K29 on all returned", faulty={"returned": "near/K29_swapped"}, returned_warm=True),
    Scenario(name="K29 in 5%", faulty={"returned": "near/K29_swapped"}, returned_warm=True, share=0.05),
    Scenario(name="K11 on all returned", faulty={"returned": "cold/K11"}),
    Scenario(name="K11 in 10% of returned", faulty={"returned": "cold/K11"}, share=0.1),
    load_fault("K06", share=0.1),
    load_fault("K05", share=0.1),
)


class Tuples:
    """Recorded documents of one mode and tail, by index."""

    def __init__(self, folder: Path, mode: str, tail: str, part: str) -> None:
        self.tail = tail
        self.records: dict[int, dict[str, Tuple]] = {}
        for path in sorted(folder.glob(f"{mode}-{tail}-?????.npz")):
            index = int(path.stem[-5:])
            if part == "all" or (index // 20 % 2 == 1) == (part == "held-out"):
                with np.load(path) as stored:
                    names, ids, values = stored["names"], stored["ids"], stored["values"]
                self.records[index] = {str(name): (ids[i], values[i]) for i, name in enumerate(names)}


def answer(
    record: Tuple, noise: Noise, path: str, key: Sequence[int], tail: int, own: np.ndarray
) -> tuple[TokenLogprob, ...]:
    """One answer as a server would give it; ends with the first token that the cold run did not choose."""
    ids, values = record
    values = values.astype(np.float64)
    lasting = noise.offset if path not in ("cold", "stepped") else 0.0
    if path in ("near", "stepped") and tail <= 16:
        lasting += noise.near
    if noise.aligned and path == "cold" and tail <= 16:
        lasting += noise.near
    if lasting:
        vectors = np.random.default_rng(key[:2]).standard_normal((len(ids), VOCABULARY))
        values = values + lasting * np.take_along_axis(vectors, ids.astype(np.int64), axis=1)
    if noise.sigma:
        values = values + noise.sigma * np.random.default_rng(key).standard_normal(values.shape)
    order = np.argsort(-values, axis=1, kind="stable")[:, :TOP]
    found = []
    for position, best in enumerate(order):
        top = tuple((str(ids[position, i]), float(values[position, i])) for i in best)
        found.append(TokenLogprob(token=top[0][0], logprob=top[0][1], top=top))
        if top[0][0] != str(own[position]):
            break
    return tuple(found)


def prompt_arms(
    index: int, recorded: Mapping[str, Tuple], tail: str, scenario: Scenario, noise: Noise, realisation: int
) -> PromptArms:
    """One document as the judge would see it in one run."""
    tokens = (LONG_TAILS if tail == "long" else SHORT_TAILS)[
        index // 2 % len(LONG_TAILS if tail == "long" else SHORT_TAILS)
    ]
    boundary = (10 + index % 2) * BLOCK - (BLOCK if scenario.near == "previous" else 0)
    length = (10 + index % 2) * BLOCK + tokens
    own = recorded["cold/healthy"][0][:, 0]
    sick = np.random.default_rng([index, realisation, 99]).random() < scenario.share
    shots: dict[str, tuple[Shot, ...]] = {}
    for number, (arm, names) in enumerate(HEALTHY_ARMS.items()):
        warm = arm in LOADS or (arm == "returned" and scenario.returned_warm)
        made = []
        for replicate, healthy in enumerate(names):
            name = scenario.faulty.get(arm, healthy) if sick else healthy
            if arm == "returned" and scenario.returned_warm and name.startswith("cold"):
                name = "near/healthy"
            if name.startswith("near/"):
                name = name.replace("near/", scenario.near + "/")
            path = "stepped" if arm == "stepped" else name.split("/")[0]
            key = [index, tail == "long", realisation, number, replicate]
            made.append(
                Shot(
                    request_id=f"{index}/{arm}/{replicate}",
                    arm=arm,
                    prompt_tokens=length,
                    cached=0 if not warm else boundary - (8 * BLOCK if path == "far" else 0),
                    warm=warm,
                    logprobs=(*_FIRST[arm == "stepped"], *answer(recorded[name], noise, path, key, tokens, own)),
                    text="",
                    ttft_ns=None,
                    labels={},
                )
            )
        shots[arm] = tuple(made)
    return PromptArms(
        prompt=f"{tail}-{index}",
        round_index=0,
        code=None,
        needle=False,
        aligned=noise.aligned,
        stepped=length - boundary == 1,
        shots=shots,
    )


def all_pairs(tuples: Tuples, scenario: Scenario, noise: Noise, realisations: int) -> list[list[tuple[Pair, ...]]]:
    """Pairs of every document, in a few realisations of the noise."""
    repeats = realisations if noise.sigma or scenario.share < 1 else 1
    needed = {name for names in scenario.faulty.values() for name in [names]}
    return [
        [pairs_of(prompt_arms(index, record, tuples.tail, scenario, noise, i)) for i in range(repeats)]
        for index, record in tuples.records.items()
        if all(name in record for name in needed)
    ]


def draw(
    short: list[list[tuple[Pair, ...]]], long: list[list[tuple[Pair, ...]]], prompts: int, rng: np.random.Generator
) -> Decision:
    """One pseudo-run: `prompts` documents, and twice as many others when the first look alarms."""
    order = rng.permutation(len(short))
    first = [pair for i in order[:prompts] for pair in _one(short[i], rng)]
    decision = decide(first)
    if not decision.alarms:
        return decision
    rest = order[prompts:] if len(order) >= 2 * prompts else rng.permutation(len(short))
    chosen = rng.choice(rest, prompts, replace=len(rest) < prompts)
    fresh = [pair for i in chosen for pair in _one(short[i], rng)]
    fresh += [pair for i in rng.integers(0, len(long), prompts) for pair in _one(long[i], rng)] if long else []
    return decide([*first, *(replace(pair, round_index=1) for pair in fresh)])


def _one(realisations: list[tuple[Pair, ...]], rng: np.random.Generator) -> tuple[Pair, ...]:
    return realisations[int(rng.integers(len(realisations)))]


def outcome(decision: Decision) -> str:
    """The status a judge would give this decision, if every arm was exercised."""
    if decision.confirmed:
        return "FAIL"
    if decision.alarms:
        return "SUSPECT"
    if decision.placebo:
        return "INCONCLUSIVE"
    worst = passing_effect(of_all_prompts(decision.smallest_effects))
    return "PASS" if worst <= PASS_EFFECT else "INCONCLUSIVE"


def simulate(options: argparse.Namespace, scenario: Scenario, noise: Noise) -> None:
    """Prints one line a size: how the pseudo-runs came out, and what alarmed."""
    short = all_pairs(Tuples(options.folder, noise.mode, "short", options.part), scenario, noise, options.realisations)
    long = all_pairs(Tuples(options.folder, noise.mode, "long", options.part), scenario, noise, options.realisations)
    runs = options.runs
    for prompts in options.sizes:
        rng = np.random.default_rng([prompts, runs])
        counts: Counter[str] = Counter()
        named: Counter[str] = Counter()
        effects: list[float] = []
        for _ in range(runs):
            decision = draw(short, long, prompts, rng)
            counts[outcome(decision)] += 1
            named.update({f"{result.family}:{result.test}" for result in decision.confirmed or decision.alarms})
            effects.append(passing_effect(of_all_prompts(decision.smallest_effects)))
        rates = " ".join(f"{name} {counts[name] / runs:.3f}" for name in ("PASS", "INCONCLUSIVE", "SUSPECT", "FAIL"))
        common = ", ".join(f"{name} {count / runs:.2f}" for name, count in named.most_common(4))
        blind = float(np.median(effects))
        print(f"{noise.name:26s} {scenario.name:30s} docs {len(short):4d}+{len(long):<4d} m {prompts:3d}", end="  ")
        print(f"{rates}  blind {blind:.2f}  {common}", flush=True)


def main() -> None:
    """Prints the tables of docs/checks.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--realisations", type=int, default=4, help="draws of the noise for each document")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--part", choices=("tuning", "held-out", "all"), default="all")
    parser.add_argument("--only", choices=("healthy", "faults"))
    parser.add_argument("--scenario", nargs="+", help="by name; all without it")
    parser.add_argument(
        "--noise", nargs="+", default=["noise .02", "offset .1 + noise .06"], help="noises of the faults"
    )
    options = parser.parse_args()
    wanted = [] if options.only == "faults" else [(noise, scenario) for noise in NOISES for scenario in HEALTHY]
    if options.only != "healthy":
        wanted += [(noise, scenario) for noise in NOISES if noise.name in options.noise for scenario in FAULTS]
    for noise, scenario in wanted:
        if not options.scenario or scenario.name in options.scenario:
            simulate(options, scenario, noise)


if __name__ == "__main__":
    main()
