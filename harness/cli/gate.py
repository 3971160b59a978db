"""`ling-bench gate`: the options, the profile, and what makes no sense together."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from harness.checks.registry import CHECKS
from harness.cli.check import check as check_command
from harness.cli.check import read_request
from harness.cli.exits import Exit
from harness.cli.gate_profiles import DEFAULT_PROFILE, SHIPPED, load_profile, shipped_text
from harness.cli.gate_run import GateRequest, run_gate
from harness.cli.running import run_async
from harness.gate.features import FEATURES
from harness.gate.order import LAST, in_order
from harness.gate.profile import Profile

# Options of `check` that a gate takes from its profile, or has in a form of its own.
NOT_TAKEN = {"names", "budget", "require"}
# Settings of a profile that are options of `check` too: what is typed wins.
SETTINGS = (
    "max_tokens_total", "max_minutes", "deterministic", "prefill_chunk", "expect_acceptance", "context",
    "price_input", "price_cached_input", "price_output",
)  # fmt: skip
# Of these, and of the gate's own, those that its decision is made from.
TYPED = ("max_tokens_total", "max_minutes", "deterministic", "expect_acceptance", "fail_fast")
# What may be typed beside --resume; everything else belongs to the plan that the run already has.
RESUME_OPTIONS = {
    "base_url", "api_key", "headers", "other_url", "other_model", "other_api_key", "result_dir", "report_dir",
    "as_json", "out", "resume",
}  # fmt: skip


def _options_of_check(command: Callable[..., object]) -> Callable[..., object]:
    """Add every option of `check` that means the same here."""
    taken = [param for param in check_command.params if param.name not in NOT_TAKEN]
    command.__click_params__ = [*reversed(taken), *getattr(command, "__click_params__", [])]  # type: ignore[attr-defined]
    return command


@click.command("gate")
@click.option(
    "--profile", "profile_name", default=DEFAULT_PROFILE, show_default=True, metavar="FILE|NAME",
    help=f"What has to hold: a TOML file, or one of {', '.join(SHIPPED)}.",
)  # fmt: skip
@click.option(
    "--init", "init", is_flag=False, flag_value="gate.toml", default=None, metavar="[FILE]",
    help="Write the profile, commented, to FILE (gate.toml) to be edited, and stop.",
)  # fmt: skip
@click.option("--require", "require", multiple=True, type=click.Choice(list(FEATURES)), help="Beside the profile's.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failure.")
@click.option(
    "--resume", type=click.Path(path_type=Path, exists=True, file_okay=False), default=None, metavar="RUN",
    help="Complete this run of a gate.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=None, metavar="DIR",
    help="Where gate.json, junit.xml and summary.md go; default: beside the report.",
)  # fmt: skip
@_options_of_check
@click.pass_context
def gate(context: click.Context, /, **given: object) -> int:
    """Run what has to be known before a model takes traffic, and decide.

    The verdict table goes to stdout, worst first, the run folder is its last line. Exit code: 0 pass, 1 a check or an
    objective failed, 3 undecided, 4 the measurement was unsound or a check broke.
    """
    typed = {
        name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }  # fmt: skip
    if given["resume"] is not None:
        _refuse_plan_options(typed)
    elif given["init"] is not None:
        return _write_profile(str(given["profile_name"]), Path(str(given["init"])))
    request = _request(given, typed)
    return run_async(lambda: run_gate(request))


def _refuse_plan_options(typed: set[str]) -> None:
    """A resumed run keeps its plan: say so instead of ignoring what was typed."""
    for name in sorted(typed - RESUME_OPTIONS):
        option = "profile" if name == "profile_name" else name.replace("_", "-")
        raise click.UsageError(f"--resume keeps the run's own plan; leave --{option} out")


def _write_profile(name: str, path: Path) -> int:
    """The profile's text as a new file."""
    text = shipped_text(name) if name in SHIPPED else load_profile(name)[0]
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{path} exists already; name another file with --init FILE") from None
    except OSError as error:
        raise click.UsageError(f"--init {path}: {error.strerror}") from None
    click.echo(str(path))
    return Exit.PASS


def _request(given: Mapping[str, object], typed: set[str]) -> GateRequest:
    """Check what was typed; every mistake is a UsageError before anything is sent."""
    resume = given["resume"]
    text, profile = load_profile(str(given["profile_name"])) if resume is None else ("", Profile(name="resumed"))
    profile = _with_typed(profile, given, typed)
    known = {name: given[name] for name in given if name not in ("profile_name", "init", "fail_fast", "out", "resume")}
    own = {name: getattr(profile, name) for name in SETTINGS if name not in typed}
    settings = {**own, "budget": profile.budget, "require": ()}
    asked = read_request((), {**known, **settings})
    names = (*in_order(each.name for each in profile.checks), *_last(profile))
    return GateRequest(
        check=replace(asked, options=replace(asked.options, checks=names or tuple(CHECKS))),
        profile=profile,
        profile_text=text,
        resume=None if resume is None else Path(str(resume)),
        out=None if given["out"] is None else Path(str(given["out"])),
        argv=tuple(sys.argv[1:]),
        environment=dict(os.environ),
    )


def _last(profile: Profile) -> tuple[str, ...]:
    return tuple(name for name in LAST if profile.entry(name) is not None)


def _with_typed(profile: Profile, given: Mapping[str, object], typed: set[str]) -> Profile:
    """The profile with what was typed in its place."""
    own = {name: given[name] for name in TYPED if name in typed}
    required = given["require"]
    assert isinstance(required, tuple)
    return replace(
        profile,
        require=tuple(dict.fromkeys((*profile.require, *map(str, required)))),
        **own,  # type: ignore[arg-type]
    )
