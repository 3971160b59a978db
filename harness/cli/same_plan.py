"""A run that is resumed asks what it began with, or says that it cannot."""

from __future__ import annotations

from collections.abc import Sequence

import click

from harness.cli.budget import SweepPlan
from harness.drive import CellSpec, round_plan
from harness.drive.lengths import LENGTHS
from harness.store import RunFolder
from workloads.sessions import SessionGenerator


def refuse_another_plan(run: RunFolder, plans: Sequence[SweepPlan]) -> None:
    """UsageError unless every cell that was begun is one of the plans'."""
    began = {line.digest for line in run.rounds() if line.generator != LENGTHS}
    if not began <= {round_plan(plan.cells[0], plan.generator).digest for plan in plans}:
        raise _another(run)


def refuse_another_cell(run: RunFolder, spec: CellSpec, generator: SessionGenerator) -> None:
    """UsageError if the cell was begun with another plan."""
    began = {line.digest for line in run.rounds() if line.cell == spec.cell}
    if not began <= {round_plan(spec, generator).digest}:
        raise _another(run)


def _another(run: RunFolder) -> click.UsageError:
    return click.UsageError(
        f"{run.path} began with another plan: the workload of this version, or the server's tokenizer, differs"
    )
