"""The entry point: a group whose commands are imported only when they run, so that `--help` stays fast."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass

import click

from harness.cli.exits import Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEntry:
    """Where a command lives and what the overview says of it."""

    section: str
    target: str
    summary: str


SECTIONS = ("Measure", "Verify", "Plan", "Records", "Engine")
COMMANDS = {
    "sweep": CommandEntry(
        section="Measure",
        target="harness.cli.sweep:sweep",
        summary="Measure an endpoint at several concurrency levels.",
    ),
    "duel": CommandEntry(
        section="Measure",
        target="harness.cli.duel:duel",
        summary="Ask the same of two endpoints, taking turns, and compare them.",
    ),
    "probe": CommandEntry(
        section="Verify",
        target="harness.cli.probe:probe_command",
        summary="Find out what a server is and what of it works.",
    ),
    "check": CommandEntry(
        section="Verify",
        target="harness.cli.check:check",
        summary="Ask whether an endpoint works as it should, and judge its answers.",
    ),
    "gate": CommandEntry(
        section="Verify",
        target="harness.cli.gate:gate",
        summary="Run everything a profile asks for before launch, and decide.",
    ),
    "workload": CommandEntry(
        section="Plan",
        target="harness.cli.workload:workload",
        summary="List, show, describe, export and fit what may be asked.",
    ),
    "selftest": CommandEntry(
        section="Verify",
        target="harness.cli.selftest:selftest",
        summary="Plant known faults in the embedded engine and see which checks find them.",
    ),
    "memory": CommandEntry(
        section="Plan",
        target="harness.cli.memory:memory",
        summary="Work out what models keep in memory, from their config.json.",
    ),
    "report": CommandEntry(
        section="Records",
        target="harness.cli.records:report",
        summary="Rebuild tables, plots and page of finished runs.",
    ),
    "compare": CommandEntry(
        section="Records",
        target="harness.cli.compare:compare",
        summary="Put finished runs side by side: ratios, who wins where, one page.",
    ),
    "judge": CommandEntry(
        section="Records",
        target="harness.cli.judge:judge",
        summary="Judge the checks of an old run again.",
    ),
    "repro": CommandEntry(
        section="Records",
        target="harness.cli.repro:repro",
        summary="Write one finding of a run as a bundle that replays by itself.",
    ),
    "list": CommandEntry(
        section="Records",
        target="harness.cli.records:list_command",
        summary="Show the runs of a result folder.",
    ),
    "serve": CommandEntry(
        section="Engine",
        target="harness.cli.serve:serve",
        summary="Run the embedded engine alone on a port.",
    ),
}


class LazyGroup(click.Group):
    """A click group that knows its commands' names and summaries without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in SECTIONS:
            rows = [(name, entry.summary) for name, entry in COMMANDS.items() if entry.section == section]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="ling-bench", prog_name="ling-bench")
def ling_bench() -> None:
    """Qualify a served hybrid linear-attention model before it takes traffic.

    Without --base-url (and without OPENAI_BASE_URL) commands run against the embedded engine: a real but tiny hybrid
    model in numpy, for trying things out. No figure of it says anything about a real model.
    """


def main() -> None:
    """Run the command line and leave with the exit codes of the conventions."""
    try:
        code = ling_bench.main(standalone_mode=False)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.UsageError as error:
        error.show()
        code = Exit.USAGE
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        code = Exit.INTERRUPTED
    sys.exit(code if isinstance(code, int) else Exit.PASS)


if __name__ == "__main__":
    main()
