"""Runs a check many times against embedded engines of its own and counts the verdicts.

    python benchmarks/eviction_live.py --runs 30 --engine "--noise bf16"
    python benchmarks/eviction_live.py --runs 50 --engine "--noise bf16 --hit-offset 0.03"
    python benchmarks/eviction_live.py --faults gross,medium --engine "--noise bf16"
    python benchmarks/eviction_live.py --faults K11,K28 --without cold --engine "--noise bf16 --cache-bytes 6000000"
    python benchmarks/eviction_live.py --again RESULTS

Each run has a fresh engine and, by its seed, fresh prompts. One line a run, then the counts. Its runs stay in RESULTS;
`--again` judges what is there by the present rules and asks nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen

from harness.checks.registry import CHECKS
from harness.checks.verdict import Status, Verdict
from harness.cli.check_options import CheckOptions
from harness.cli.check_run import CheckRequest, carry_out
from harness.cli.embedded import embedded_engine
from harness.cli.selftest_plan import modes, planted
from harness.cli.target import EMBEDDED, Access, EndpointChoice
from harness.drive.check_history import rounds_of
from harness.drive.judging import judge_run
from harness.endpoint.url import normalise_base_url
from harness.store import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One engine to be asked: `name` in the table, `engine` its arguments."""

    name: str
    engine: tuple[str, ...]
    seed: int


def trials(options: argparse.Namespace) -> Iterator[Trial]:
    """Healthy repetitions, or one trial for each wanted fault that the check should see."""
    base = tuple(options.engine.split())
    if options.faults is None:
        yield from (Trial(name=options.engine, engine=base, seed=options.first_seed + i) for i in range(options.runs))
        return
    wanted = options.faults.split(",")
    for name in modes():
        fault = planted(name, full=False)
        if name in wanted or fault.code in wanted or (fault.size in wanted and options.check in fault.checks):
            planting = ("--fault", f"{fault.code}:mode={fault.mode}")
            extra = () if options.bare else fault.engine[:-2]
            for i in range(options.runs):
                yield Trial(name=name, engine=(*extra, *base, *planting), seed=options.first_seed + i)


async def ask(trial: Trial, options: argparse.Namespace) -> tuple[Verdict | None, Path]:
    """The verdict of one run (None: the check broke) and its folder."""
    request = CheckRequest(
        options=CheckOptions(
            checks=(options.check,),
            budget=options.budget,
            exclusive_server=True,
            seed=trial.seed,
            prefill_chunk=options.prefill_chunk,
        ),
        base_url=None,
        api_key=None,
        headers=(),
        result_dir=options.results,
        report_dir=options.results / "reports",
        dry_run=False,
        as_json=False,
        argv=("check", options.check),
        environment={},
    )
    with embedded_engine(trial.engine) as direct, _lesser(direct, options.without) as url:
        choice = EndpointChoice(base=normalise_base_url(url), chosen_by=EMBEDDED)
        run, judgements = await carry_out(request, choice, Access(), silent=True)
    return judgements[0].verdict, run.path


@contextmanager
def _lesser(upstream: str, without: str | None) -> Iterator[str]:
    """The server at `upstream`, behind a proxy if it is to lack something."""
    if without is None:
        yield upstream
        return
    script = Path(__file__).with_name("lesser_server.py")
    with Popen([sys.executable, str(script), upstream, "--without", without], stdin=PIPE, stdout=PIPE) as proxy:
        assert proxy.stdout is not None
        yield str(json.loads(proxy.stdout.readline())["listening"])


def judged_again(folder: Path, check: str) -> Iterator[tuple[Trial, Verdict | None, Path]]:
    """Every run below a folder by the present rules."""
    for path in sorted(path.parent for path in folder.rglob("run.json")):
        with RunFolder.open(path) as run:
            if rounds_of(run, check):
                (verdict,) = (each.verdict for each in judge_run(run, CHECKS) if each.check == check)
                yield Trial(name=path.parent.name, engine=(), seed=run.info.seed), verdict, path


def told(trial: Trial, verdict: Verdict | None, folder: Path, took_s: float) -> str:
    """One run in one line."""
    if verdict is None:
        return f"{trial.name:24s} seed {trial.seed:<4d} BROKEN  {folder.name}"
    return f"{trial.name:24s} seed {trial.seed:<4d} {verdict.status.value:13s} {took_s:4.0f} s  {verdict.reason}"


def blind(verdict: Verdict) -> float | None:
    """The largest of the smallest effects that a pass names; None if it names none."""
    value = verdict.details.get("blind_nats")
    return value if isinstance(value, float) else None


def asked(options: argparse.Namespace) -> Iterator[tuple[Verdict | None, str]]:
    """The verdict and the line of each run, one after the other."""
    if options.again is not None:
        for trial, verdict, folder in judged_again(options.again, options.check):
            yield verdict, told(trial, verdict, folder, 0.0)
        return
    for trial in trials(options):
        began_s = time.monotonic()
        verdict, folder = asyncio.run(ask(trial, options))
        yield verdict, told(trial, verdict, folder, time.monotonic() - began_s)


def main() -> None:
    """Asks, and prints lines and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--engine", default="--noise bf16", help="arguments of every engine")
    parser.add_argument("--faults", help="CODE, CODE:mode, gross or medium, by commas")
    parser.add_argument("--bare", action="store_true", help="without what selftest gives the engine of each fault")
    parser.add_argument("--without", choices=("cold", "logprobs"), help="cold: no flush, no salt")
    parser.add_argument("--prefill-chunk", type=int, help="as for `check`; the embedded engine's is 512")
    parser.add_argument("--check", default="eviction")
    parser.add_argument("--budget", default="normal")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("results/live"))
    parser.add_argument("--again", type=Path, metavar="RESULTS")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    effects: list[float] = []
    for verdict, line in asked(options):
        print(line, flush=True)
        counts["broken" if verdict is None else verdict.status.value] += 1
        if verdict is not None and verdict.status is Status.PASS and (nats := blind(verdict)) is not None:
            effects.append(nats)
    print(f"{sum(counts.values())} runs: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    if effects:
        print(f"blind below, nats: median {statistics.median(effects):.3f}, largest {max(effects):.3f}")


if __name__ == "__main__":
    main()
