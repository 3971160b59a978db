"""`ling-bench memory`: from a config.json to bytes, before anything is deployed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import click

from harness.cli.exits import Exit
from harness.cli.memory_server import ask_server
from harness.memory.deployment import Deployment
from harness.memory.document import measured_document, model_document
from harness.memory.fields import ConfigError
from harness.memory.measured import Comparison, compare
from harness.memory.model import MemoryModel, read_model
from harness.memory.node import GB, Node, NodeBudget, parse_node
from harness.memory.presets import Preset, parse_preset
from harness.memory.sequence import Engine, KvDtype, Setting, StateDtype, default_state_dtype
from harness.report.deployments import deployment_names, load_deployment
from harness.report.memory_table import Subject, measured_text, memory_text
from workloads.plan import Json

DEFAULT_CONTEXTS = "32K,128K,262144,1M"
SUFFIXES = {"K": 1 << 10, "M": 1 << 20}
CONFIG_NAME = "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """What was typed. state_dtype: None takes each config's own; tp: None takes the node's GPUs, or 1."""

    contexts: tuple[int, ...]
    kv_dtype: KvDtype
    state_dtype: StateDtype | None
    draft_tokens: int
    engine: Engine
    snapshots: int
    node: Node | None
    loaded: Mapping[str | None, float]
    reserve_bytes: int
    tp: int | None
    dp_attention: bool


def preset_names() -> list[str]:
    """The models that can be named instead of giving a config."""
    folder = resources.files("harness.memory") / "presets"
    return sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json"))


def load_preset(name: str) -> Preset:
    """The preset of that name; its file must exist."""
    file = resources.files("harness.memory") / "presets" / f"{name}.json"
    return parse_preset(json.loads(file.read_text("utf-8")))


def parse_contexts(text: str) -> tuple[int, ...]:
    """Read "32K,128K,262144,1M" (K = 1,024, M = 1,048,576); UsageError names the part that is no length."""
    lengths = []
    for part in (item.strip() for item in text.split(",")):
        unit = SUFFIXES.get(part[-1:].upper(), 1)
        digits = part[:-1] if unit > 1 else part
        if not digits.isdigit() or int(digits) < 1:
            raise click.UsageError(f"--context: {part!r} is not a length; write for example {DEFAULT_CONTEXTS}")
        lengths.append(int(digits) * unit)
    return tuple(lengths)


def parse_loaded(items: Sequence[str]) -> dict[str | None, float]:
    """Read "689" (for every model) and "NAME=689"; UsageError when the part after the name is no size."""
    found: dict[str | None, float] = {}
    for item in items:
        name, equals, size = item.rpartition("=")
        try:
            found[name if equals else None] = float(size)
        except ValueError:
            raise click.UsageError(f"--loaded-gb {item!r}: write GB, or NAME=GB") from None
    return found


@click.command("memory")
@click.argument("models", nargs=-1, metavar="CONFIG|PRESET...")
@click.option("--context", "contexts", default=DEFAULT_CONTEXTS, show_default=True, help="Lengths, in tokens.")
@click.option(
    "--kv-dtype", type=click.Choice([d.value for d in KvDtype]), default=KvDtype.BF16.value, show_default=True
)
@click.option(
    "--state-dtype",
    type=click.Choice([d.value for d in StateDtype]),
    default=None,
    help="Default: the config's, or fp32.",
)
@click.option(
    "--num-speculative-tokens", type=click.IntRange(min=0), default=0, help="Drafts a step; counts the MTP layer."
)
@click.option(
    "--engine",
    type=click.Choice([e.value for e in Engine]),
    default=Engine.VLLM.value,
    show_default=True,
    help="Whose states for drafts.",
)
@click.option("--snapshots", type=click.IntRange(min=0), default=0, help="Cached states kept for each sequence.")
@click.option("--node", default=None, metavar="NxGPU", help="8xH200, 4xGB300, or 8x80GB.")
@click.option("--loaded-gb", multiple=True, metavar="[NAME=]GB", help="Weights over all GPUs, before any cache.")
@click.option("--reserve-gb", type=click.FloatRange(min=0), default=0.0, help="Kept for activations and graphs.")
@click.option("--tp", type=click.IntRange(min=1), default=None, help="Tensor parallel ranks. Default: the node's GPUs.")
@click.option("--dp-attention", is_flag=True, help="A sequence lives on one rank whole.")
@click.option("--figure", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Picture: .png or .svg.")
@click.option("--base-url", "--url", default=None, help="A server to put beside the first model.")
@click.option("--api-key", envvar="OPENAI_API_KEY", default=None, help="Bearer key; never saved. [env: OPENAI_API_KEY]")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Extra request header; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def memory(
    models: tuple[str, ...],
    figure: Path | None,
    base_url: str | None,
    api_key: str | None,
    headers: tuple[str, ...],
    as_json: bool,
    **given: object,
) -> int:
    """Work out the memory of models from their config.json.

    Each argument is a config.json, a folder that has one, or the name of a preset. Cache per token, state per sequence,
    break-even length, parameters, vLLM's block size, and with --node the sessions that fit. With --base-url the
    server's own figures stand beside the computed ones.
    """
    if not models:
        raise click.UsageError(f"name a config.json or a preset: {', '.join(preset_names())}")
    options = _options(given)
    subjects = [_subject(name, options) for name in models]
    comparison = _measure(base_url, api_key, headers, subjects[0]) if base_url is not None else None
    if figure is not None:
        _draw(subjects, options, figure)
    click.echo(_json_text(subjects, options, comparison) if as_json else _plain_text(subjects, options, comparison))
    return Exit.PASS


def _options(given: Mapping[str, object]) -> MemoryOptions:
    node, state, loaded = given["node"], given["state_dtype"], given["loaded_gb"]
    assert isinstance(loaded, tuple)
    if loaded and node is None:
        raise click.UsageError("--loaded-gb needs --node")
    try:
        parsed = None if node is None else parse_node(str(node))
    except ValueError as error:
        raise click.UsageError(f"--node: {error}") from None
    tp, reserve = given["tp"], given["reserve_gb"]
    draft, snapshots = given["num_speculative_tokens"], given["snapshots"]
    assert isinstance(reserve, float) and isinstance(draft, int) and isinstance(snapshots, int)
    return MemoryOptions(
        contexts=parse_contexts(str(given["contexts"])),
        kv_dtype=KvDtype(str(given["kv_dtype"])),
        state_dtype=None if state is None else StateDtype(str(state)),
        draft_tokens=draft,
        engine=Engine(str(given["engine"])),
        snapshots=snapshots,
        node=parsed,
        loaded=parse_loaded(loaded),
        reserve_bytes=round(reserve * GB),
        tp=tp if isinstance(tp, int) else None,
        dp_attention=given["dp_attention"] is True,
    )


def _subject(name: str, options: MemoryOptions) -> Subject:
    model, preset = named_model(name)
    tp = options.tp if options.tp is not None else (options.node.gpus if options.node else 1)
    setting = Setting(
        kv_dtype=options.kv_dtype,
        state_dtype=options.state_dtype or default_state_dtype(model.shape),
        tp=tp,
        draft_tokens=options.draft_tokens,
        engine=options.engine,
        snapshots=options.snapshots,
    )
    budget = None if options.node is None else _budget(options.node, model, preset, options)
    return Subject(model=model, setting=setting, preset=preset, budget=budget, dp_attention=options.dp_attention)


def named_model(name: str) -> tuple[MemoryModel, Preset | None]:
    """A file or folder if there is one of that name, else a preset; UsageError if it cannot be read."""
    path = Path(name)
    if path.is_dir():
        path = path / CONFIG_NAME
    try:
        if path.is_file():
            return read_model(path.parent.resolve().name or name, _load_config(path)), None
        if name in deployment_names():
            name = _model_of(load_deployment(name))
        if name.lower() in preset_names():
            preset = load_preset(name.lower())
            return read_model(preset.name, preset.config), preset
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    raise click.UsageError(f"{name} is neither a config.json nor a preset; presets: {', '.join(preset_names())}")


def _model_of(deployment: Deployment) -> str:
    """The model preset that a published deployment serves; its own name where none is said."""
    return deployment.name if deployment.memory_preset is None else deployment.memory_preset


def _load_config(path: Path) -> Mapping[str, Json]:
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise click.UsageError(f"{path} is not a JSON object")
    return config


def _budget(node: Node, model: MemoryModel, preset: Preset | None, options: MemoryOptions) -> NodeBudget:
    gigabytes = options.loaded.get(model.name, options.loaded.get(None))
    if gigabytes is None and preset is not None and preset.loaded_bytes is not None:
        gigabytes = preset.loaded_bytes.value / GB
    if gigabytes is None:
        raise click.UsageError(f"{model.name}: what do the weights take? Give --loaded-gb {model.name}=GB with --node")
    try:
        return NodeBudget(node=node, loaded_bytes=round(gigabytes * GB), reserve_bytes=options.reserve_bytes)
    except ValueError as error:
        raise click.UsageError(f"{model.name}: {error}") from None


def _measure(base_url: str, api_key: str | None, headers: Sequence[str], subject: Subject) -> Comparison:
    reported = ask_server(base_url, api_key, headers)
    if not subject.shape.heads_divide(reported.tp if reported.tp is not None else subject.rank_setting.tp):
        raise click.UsageError(
            f"{subject.model.name} does not split over the server's {reported.tp} ranks: another model?"
        )
    return compare(subject.shape, subject.rank_setting, reported)


def _json_text(subjects: Sequence[Subject], options: MemoryOptions, comparison: Comparison | None) -> str:
    models: list[Json] = [
        model_document(subject.shape, subject.setting, options.contexts, subject.budget) for subject in subjects
    ]
    document: dict[str, Json] = {"models": models}
    if comparison is not None:
        document["measured"] = measured_document(comparison)
    return json.dumps(document, indent=2)


def _plain_text(subjects: Sequence[Subject], options: MemoryOptions, comparison: Comparison | None) -> str:
    text = memory_text(subjects, options.contexts)
    return text if comparison is None else f"{text}\n\n\n{measured_text(comparison)}"


def _draw(subjects: Sequence[Subject], options: MemoryOptions, path: Path) -> None:
    from harness.report import style
    from harness.report.memory_figure import memory_against_context

    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg"):
        raise click.UsageError(f"--figure {path}: end the name in .png or .svg")
    drawing = memory_against_context([(each.shape, each.setting) for each in subjects], max(options.contexts))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(style.render(drawing.figure, kind))
