"""How often the eviction judge accuses a healthy server: pseudo-runs drawn from prompts that live runs recorded.

    python benchmarks/eviction_live.py --runs 30 --engine "--noise bf16" --results LIVE/align
    python benchmarks/eviction_resample.py LIVE --runs 10000
    python benchmarks/eviction_resample.py LIVE --variants align --power docs/figures/eviction-power.png

Every folder of LIVE is a variant of a healthy server. A pseudo-run draws 32 of its prompts, each with everything that
was asked of it, and twice as many others if the first look alarms; they go through the functions that judge a live
history. Every second run is held out: thresholds were looked at on the others (`--part tuning`). `--power` makes
answers from the cache differ by so many nats in a share of the prompts, and draws how often that is found.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from eviction_power import outcome

from harness.checks.eviction.arms import sort_by_prompt
from harness.checks.eviction.decision import Decision, decide
from harness.checks.eviction.judge import blind_alone
from harness.checks.eviction.pairs import Pair, pairs_of
from harness.drive.check_history import load_history, rounds_of
from harness.store import RunFolder

CHECK = "eviction"
Unit = tuple[Pair, ...]
"""All pairs of one prompt of the plan, and of what was asked beside it under its name."""


def units_of(path: Path) -> list[Unit]:
    """The prompts of a run's first look; sentinels are units of their own."""
    with RunFolder.open(path) as run:
        prompts = sort_by_prompt(load_history(run, CHECK))
    grouped: dict[str, list[Pair]] = {}
    for prompt in prompts:
        if prompt.round_index == 0:
            name = prompt.prompt.removesuffix("/short")
            pairs = (replace(pair, prompt=f"{path.name}/{pair.prompt}") for pair in pairs_of(prompt))
            grouped.setdefault(name, []).extend(pairs)
    return [tuple(pairs) for name, pairs in grouped.items() if "/p" in name]


def recorded(folder: Path, part: str) -> list[Unit]:
    """The prompts of a variant's runs; every second run is held out."""
    paths = sorted(path.parent for path in folder.rglob("run.json"))
    paths = [path for path in paths if rounds_of(RunFolder.open(path), CHECK)]
    chosen = {"tuning": paths[::2], "held-out": paths[1::2], "all": paths}[part]
    return [unit for path in chosen for unit in units_of(path)]


WARM_ARMS = ("hit", "cotraffic-hit", "refilled", "refilled-decode", "refilled-together", "refilled-fork")
EFFECTS = (0.05, 0.06, 0.08, 0.15, 0.3, 0.6, 1.0)
SHARES = (0.03, 0.06, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def spoilt(unit: Unit, nats: float) -> Unit:
    """A prompt whose answers from the cache differ from cold ones by `nats` more at every position."""

    def changed(pair: Pair) -> Pair:
        arm, _, reference = pair.family.partition("/")
        if arm not in WARM_ARMS or not reference.startswith("cold"):
            return pair
        return replace(pair, near=pair.near + nats**2, near_first=pair.near_first + nats**2)

    return tuple(changed(pair) for pair in unit)


def draw(units: list[Unit], prompts: int, rng: np.random.Generator) -> Decision:
    """One pseudo-run; what confirms is drawn from the prompts that the first look did not use."""
    order = rng.permutation(len(units))
    first = [pair for i in order[:prompts] for pair in units[i]]
    decision = decide(first)
    if not decision.alarms:
        return decision
    rest = order[prompts:]
    chosen = rng.choice(rest, 2 * prompts, replace=len(rest) < 2 * prompts)
    fresh = [replace(pair, round_index=1) for i in chosen for pair in units[i]]
    return decide([*first, *fresh])


def simulate(name: str, units: list[Unit], runs: int, prompts: int) -> Counter[str]:
    """Prints one line of a variant."""
    rng = np.random.default_rng([len(units), runs])
    counts: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    blind: list[float] = []
    for _ in range(runs):
        decision = draw(units, prompts, rng)
        counts[outcome(decision)] += 1
        alarms.update(f"{result.family}:{result.test}" for result in decision.alarms)
        blind.append(blind_alone(decision.smallest_effects))
    shares = " ".join(f"{word} {counts[word] / runs:.4f}" for word in ("PASS", "INCONCLUSIVE", "SUSPECT", "FAIL"))
    quantiles = " ".join(f"{value:.3f}" for value in np.quantile(blind, [0.5, 0.99]))
    named = ", ".join(f"{alarm} {count}" for alarm, count in alarms.most_common(3))
    print(f"{name:10s} {len(units):5d} prompts {runs:6d} runs  {shares}  blind {quantiles}  {named}", flush=True)
    return counts


def found(units: list[Unit], nats: float, share: float, runs: int, prompts: int) -> float:
    """Share of pseudo-runs that end in FAIL when `share` of the prompts are spoilt."""
    rng = np.random.default_rng([round(nats * 1e4), round(share * 1e4), runs])
    failed = 0
    for _ in range(runs):
        sick = rng.random(len(units)) < share
        mixed = [spoilt(unit, nats) if ill else unit for unit, ill in zip(units, sick, strict=True)]
        failed += bool(draw(mixed, prompts, rng).confirmed)
    return failed / runs


def power(units: list[Unit], runs: int, prompts: int, figure: Path) -> None:
    """Prints and draws how often a fault of every hit is found, by its size and by how many prompts it hits."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for nats in EFFECTS:
        shares = [found(units, nats, share, runs, prompts) for share in SHARES]
        print(f"{nats:.2f} nats in {SHARES} of prompts: FAIL {shares}", flush=True)
        axes.plot(SHARES, shares, marker="o", markersize=3, label=f"{nats:g} nats")
    axes.set(
        xscale="log", xlabel="share of prompts with the fault", ylabel="share of runs that FAIL", ylim=(-0.02, 1.02)
    )
    axes.set_xticks(SHARES, [f"{share:.0%}" for share in SHARES])
    axes.minorticks_off()
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    pyplot.savefig(figure, dpi=100)


def main() -> None:
    """Prints a line for each variant and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("live", type=Path)
    parser.add_argument("--runs", type=int, default=10_000, help="pseudo-runs of all variants together")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--part", choices=("tuning", "held-out", "all"), default="held-out")
    parser.add_argument("--variants", nargs="+", help="names of folders; all without it")
    parser.add_argument("--power", type=Path, metavar="PNG", help="draw what is found, by size")
    options = parser.parse_args()
    folders = [folder for folder in sorted(options.live.iterdir()) if folder.is_dir()]
    folders = [folder for folder in folders if options.variants is None or folder.name in options.variants]
    units = {folder.name: recorded(folder, options.part) for folder in folders}
    if options.power is not None:
        power([unit for kept in units.values() for unit in kept], options.runs, options.prompts, options.power)
        return
    wanted = {name: kept for name, kept in units.items() if len(kept) >= options.prompts}
    total: Counter[str] = Counter()
    for name, kept in wanted.items():
        total += simulate(name, kept, options.runs // len(wanted), options.prompts)
    everything = sum(len(kept) for kept in wanted.values())
    print(f"all: {everything} prompts, {sum(total.values())} runs: {dict(total)}")


if __name__ == "__main__":
    main()
