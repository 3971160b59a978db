"""`ling-bench check`: the options, their checks, and their help."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from harness.checks.check import PROMPTS_OF_BUDGET
from harness.checks.registry import CHECKS
from harness.cli.check_options import ENDPOINT_TYPES, REQUIRABLE, CheckOptions
from harness.cli.check_run import CheckRequest, run_checks
from harness.cli.manners import manners_options
from harness.cli.memory import parse_contexts
from harness.cli.options import parse_note
from harness.cli.other_server import parse_other
from harness.cli.presets import PRESET_HELP, from_preset
from harness.cli.running import run_async
from harness.cli.target import settle

_QUESTIONS = "\n\n".join(f"{check.name}: {check.question}" for check in CHECKS.values())


@click.command("check", epilog=_QUESTIONS)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--base-url", "--url", default=None, help="Server, with or without /v1. [env: OPENAI_BASE_URL]")
@click.option("--model", default=None, help="Model to ask; default: the only one served.")
@click.option(
    "--endpoint-type", type=click.Choice(ENDPOINT_TYPES), default="auto", show_default=True,
    help="auto: completions, and chat where they are missing.",
)  # fmt: skip
@click.option("--api-key", envvar="OPENAI_API_KEY", default=None, help="Bearer key; never saved. [env: OPENAI_API_KEY]")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Extra request header; repeatable.")
@click.option(
    "--budget", type=click.Choice(list(PROMPTS_OF_BUDGET)), default="normal", show_default=True,
    help="How much may be asked; more sees smaller faults.",
)  # fmt: skip
@click.option("--max-tokens-total", type=int, default=None, help="Cap on prompt and output tokens of the whole run.")
@click.option("--max-minutes", type=float, default=None, help="Nothing new is asked after this many minutes.")
@click.option(
    "--exclusive-server", is_flag=True,
    help="Nobody else uses the server: checks may empty its cache and flood it. Implied by the embedded engine.",
)  # fmt: skip
@click.option("--deterministic", is_flag=True, help="The server promises bit-exact answers; hold it to that.")
@click.option(
    "--prefill-chunk", type=int, default=None, metavar="TOKENS",
    help="What the server computes of a prompt at a time, where it does not say (vLLM: --max-num-batched-tokens): with"
    " drafts, eviction sees smaller faults.",
)  # fmt: skip
@click.option(
    "--require",
    "require",
    multiple=True,
    type=click.Choice(REQUIRABLE),
    help="A feature that has to be there, or (cached-report, exact-drafts) a promise to hold the server to.",
)
@click.option(
    "--baseline", type=click.Path(path_type=Path, exists=True, file_okay=False), default=None, metavar="RUN",
    help="An earlier run of your own: acceptance below it on the same prompts is a failure.",
)  # fmt: skip
@click.option(
    "--expect-acceptance", type=float, default=None, metavar="LENGTH",
    help="Acceptance length published for other prompts: below it is suspect at most.",
)  # fmt: skip
@click.option(
    "--context", default=None, metavar="LENGTH",
    help="Context the server has to serve, such as 32K or 262144: recall and context ask up to it.",
)  # fmt: skip
@click.option("--price-input", type=float, default=None, help="Price of a million prompt tokens, for billing.")
@click.option("--price-cached-input", type=float, default=None, help="The same for those that were cached.")
@click.option("--price-output", type=float, default=None, help="Price of a million output tokens.")
@click.option(
    "--other-url", default=None, metavar="URL",
    help="A second server with the same model and tokenizer: parity compares their answers; so does spec-parity, if it"
    " does not draft.",
)  # fmt: skip
@click.option("--other-model", default=None, metavar="NAME", help="Its model, if it serves several.")
@click.option("--other-api-key", default=None, help="Its bearer key; never saved.")
@click.option("--preset", default=None, metavar="NAME", help=f"{PRESET_HELP} Most checks stay greedy, and say so.")
@click.option("--extra-body", default=None, metavar="JSON", help="More fields of every request; no sampling.")
@manners_options
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--tokenizer", default=None, metavar="PATH", help="tokenizer.json that sizes prompts given as text.")
@click.option("--connect-timeout", "connect_timeout_s", type=float, default=10.0, show_default=True, help="Seconds.")
@click.option("--first-byte-timeout", "first_byte_timeout_s", type=float, default=600.0, show_default=True)
@click.option("--stall-timeout", "stall_timeout_s", type=float, default=120.0, show_default=True)
@click.option("--request-timeout", "request_timeout_s", type=float, default=3600.0, show_default=True)
@click.option("--note", "notes", multiple=True, metavar="KEY=VALUE", help="Record what HTTP cannot show; repeatable.")
@click.option("--result-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("results"))
@click.option("--report-dir", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"))
@click.option("--dry-run", is_flag=True, help="Print the cost in requests and tokens, then stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON instead of the table.")
def check(names: tuple[str, ...], **given: object) -> int:
    """Ask an endpoint whether it works as it should, and judge its answers; all checks without a NAME.

    The verdicts go to stdout, worst first, the run folder is its last line. Exit code: 0 all passed, 1 something
    failed, 3 undecided, 4 a check broke.
    """
    request = read_request(names, given)
    return run_async(lambda: run_checks(request))


def read_request(names: Sequence[str], given: Mapping[str, object]) -> CheckRequest:
    """Check what was typed; every mistake is a UsageError before anything is sent."""
    if unknown := [name for name in names if name not in CHECKS]:
        raise click.UsageError(f"no check is called {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    environment = dict(os.environ)
    base_url = given["base_url"]
    embedded = settle(None if base_url is None else str(base_url), environment) is None
    exclusive = bool(given["exclusive_server"]) or embedded
    if not exclusive:
        _refuse_disturbing(names)
    notes = _notes(given["notes"])
    other = parse_other(*(_text(given[name]) for name in ("other_url", "other_model", "other_api_key")))
    shown_url = None if other is None else str(other.choice.base.root)
    baseline = None if given["baseline"] is None else str(Path(str(given["baseline"])).resolve())
    own = {name: given[name] for name in ("base_url", "api_key", "headers", "result_dir", "report_dir")}
    return CheckRequest(
        options=_options(
            names,
            {
                **given,
                "exclusive_server": exclusive,
                "notes": notes,
                "baseline": baseline,
                "other_url": shown_url,
                "context": _context(given["context"]),
                **from_preset(given),
            },
        ),
        argv=tuple(sys.argv[1:]),
        environment=environment,
        other=other,
        dry_run=bool(given["dry_run"]),
        as_json=bool(given["as_json"]),
        **own,  # type: ignore[arg-type]
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _context(text: object) -> int | None:
    """One length; UsageError for anything else."""
    if text is None:
        return None
    lengths = parse_contexts(str(text))
    if len(lengths) != 1:
        raise click.UsageError("--context: a check takes one length")
    return lengths[0]


def _refuse_disturbing(names: Sequence[str]) -> None:
    for name in names:
        if CHECKS[name].disturbs:
            raise click.UsageError(
                f"{name} empties or floods the server's cache, which slows everybody else who uses it;"
                " say --exclusive-server if nobody does"
            )


def _options(names: Sequence[str], given: Mapping[str, object]) -> CheckOptions:
    known = {name: value for name, value in given.items() if name in CheckOptions.__slots__}
    try:
        return CheckOptions(checks=tuple(dict.fromkeys(names)) or tuple(CHECKS), **known)  # type: ignore[arg-type]
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _notes(texts: object) -> dict[str, str]:
    assert isinstance(texts, tuple)
    try:
        return dict(parse_note(str(text)) for text in texts)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
