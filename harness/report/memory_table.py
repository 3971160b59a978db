"""The memory arithmetic as text: what a model keeps, what a node holds, and what a server says of itself."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.memory.measured import Comparison
from harness.memory.model import MemoryModel
from harness.memory.node import GB, NodeBudget, sessions
from harness.memory.pages import vllm_pages, vllm_reserved_bytes
from harness.memory.parameters import Part, explain_active
from harness.memory.presets import Preset
from harness.memory.sequence import (
    Setting,
    break_even_tokens,
    conv_bytes,
    kv_bytes_per_token,
    sequence_bytes,
    snapshot_bytes,
    state_bytes,
)
from harness.memory.shape import ModelShape
from harness.report.numbers import NOT_REPORTED, number, whole
from harness.report.tables import Table
from harness.report.terminal import WIDTH, table_text

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
BILLION = 1e9
ROUNDING = 0.01  # a published figure this close to the counted one is the same figure, rounded
LABEL_WIDTH = 14
SHOWN_FROM = 0.05 * BILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model to show: how it is served, and what was published about it (preset: None for a bare config).

    setting.tp is what the node is split over; dp_attention: a sequence lives on one rank whole.
    """

    model: MemoryModel
    setting: Setting
    preset: Preset | None = None
    budget: NodeBudget | None = None
    dp_attention: bool = False

    @property
    def shape(self) -> ModelShape:
        """The model's layers."""
        return self.model.shape

    @property
    def rank_setting(self) -> Setting:
        """How one rank sees a sequence."""
        return replace(self.setting, tp=1) if self.dp_attention else self.setting

    @property
    def whole_setting(self) -> Setting:
        """A sequence as if one rank held all of it."""
        return replace(self.setting, tp=1)


def binary(size_bytes: float | None) -> str:
    """Bytes in the largest binary unit that leaves at least one; a dash for None."""
    if size_bytes is None:
        return NOT_REPORTED
    for unit, name in UNITS:
        if size_bytes >= unit:
            return f"{number(size_bytes / unit)} {name}"
    return f"{size_bytes:,.0f} B"


def billions(count: float) -> str:
    """A parameter count."""
    return f"{count / BILLION:,.1f}B"


def memory_text(subjects: Sequence[Subject], contexts: Sequence[int]) -> str:
    """Everything about each model, then the models beside each other."""
    blocks = ["\n\n".join(_model_blocks(subject, contexts)) for subject in subjects]
    if len(subjects) > 1:
        blocks.append(f"total of one sequence\n{table_text(_beside(subjects, contexts))}")
    return "\n\n\n".join(blocks)


def _model_blocks(subject: Subject, contexts: Sequence[int]) -> list[str]:
    shape = subject.shape
    facts = [
        *_cache_facts(subject),
        *_context_facts(subject),
        *_parameter_facts(subject),
        *_page_facts(subject, contexts),
    ]
    lines = [_fact_line(label, text) for label, text in facts]
    blocks = ["\n".join([f"{shape.name}  ({shape.family})", *lines]), table_text(_lengths(subject, contexts))]
    if subject.budget is not None:
        blocks.append(_node_text(subject, subject.budget, contexts))
    return blocks


def _fact_line(label: str, text: str) -> str:
    """A label and its text, wrapped to the width of the tables."""
    first, rest = f"  {label:<{LABEL_WIDTH}}", " " * (LABEL_WIDTH + 6)
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _cache_facts(subject: Subject) -> list[tuple[str, str]]:
    shape, setting = subject.shape, subject.whole_setting
    layers = ", ".join(f"{count} {kind}" for kind, count in shape.layers_by_kind().items())
    drafting = "" if shape.mtp is None else f"; {shape.mtp.count} MTP"
    facts = [("layers", layers + drafting)]
    facts.append(("cache", f"{kv_bytes_per_token(shape, setting):,} B a token, {setting.kv_dtype}"))
    if not shape.recurrent_groups():
        return facts
    state, conv = state_bytes(shape, setting), conv_bytes(shape, setting)
    facts.append(("state", f"{binary(state)} a sequence, {setting.state_dtype}; convolutions {binary(conv)}"))
    even, with_conv = break_even_tokens(shape, setting), break_even_tokens(shape, setting, with_conv=True)
    if even is not None:
        facts.append(
            (
                "break-even",
                f"{even:,} tokens ({whole(with_conv)} with convolutions): below it, attention layers keep less",
            )
        )
    if setting.draft_tokens:
        extra = setting.draft_states * snapshot_bytes(shape, setting)
        text = (
            f"{setting.draft_states} more states of a running sequence for rollback ({setting.engine}): {binary(extra)}"
        )
        facts.append(("speculation", text))
    return facts


def _context_facts(subject: Subject) -> list[tuple[str, str]]:
    config = subject.shape.max_context_tokens
    card = None if subject.preset is None else subject.preset.card_context_tokens
    if config is None and card is None:
        return []
    text = f"config {whole(config)}, card {whole(card)} tokens"
    if config is not None and card is not None and card > config:
        text += ": they disagree, so plan on the config"
    return [("context", text)]


def _parameter_facts(subject: Subject) -> list[tuple[str, str]]:
    count = subject.model.parameters
    if count is None:
        return [("parameters", f"not counted: {subject.model.parameters_missing}")]
    tables = [Part.EMBEDDING, Part.HEAD]
    total = f"{billions(count.total())} in all, {billions(count.total(without=tables))} without embeddings"
    active = f"{billions(count.active())} a token, {billions(count.active(without=tables))} without embeddings"
    mtp = f"; MTP {billions(count.mtp)} more" if count.mtp else ""
    facts = [("parameters", total + mtp), ("active", active)]
    parts = sorted(count.by_part().values(), key=lambda item: -item.active)
    shown = [
        f"{item.part} {billions(item.active)}"
        for item in parts
        if item.part is not Part.MTP and item.active >= SHOWN_FROM
    ]
    facts.append(("", "  = " + ", ".join(shown)))
    return facts + [("", text) for text in _claim_lines(subject)]


def _claim_lines(subject: Subject) -> list[str]:
    count, preset = subject.model.parameters, subject.preset
    if count is None or preset is None:
        return []
    lines = []
    for claim in preset.active_parameters:
        found = explain_active(count, claim.value)
        nearest = "matches" if abs(found.deviation) < ROUNDING else "comes nearest to"
        lines.append(
            f"  {billions(claim.value)} ({claim.source}) {nearest} {billions(found.counted)}, {found.counting}"
        )
    if preset.weight_bytes is not None:
        each = preset.weight_bytes.value / (count.total() + count.mtp)
        source = preset.weight_bytes.source
        lines.append(
            f"  weights {preset.weight_bytes.value / GB:,.0f} GB ({source}): {each:.3f} B a parameter with MTP"
        )
    return lines


def _page_facts(subject: Subject, contexts: Sequence[int]) -> list[tuple[str, str]]:
    shape, setting = subject.shape, subject.rank_setting
    if not shape.recurrent_groups():
        return []
    snapshot = snapshot_bytes(shape, subject.whole_setting)
    per_token = kv_bytes_per_token(shape, subject.whole_setting)
    worth = f" = {snapshot / per_token:,.0f} tokens of cache" if per_token else ""
    facts = [("snapshot", f"{binary(snapshot)}{worth}; a turn end kept costs one, a fork one more")]
    if not shape.heads_divide(setting.tp):
        return [*facts, ("vLLM block", f"the heads do not split over {setting.tp} ranks")]
    pages = vllm_pages(shape, setting)
    if pages is None:
        return facts
    share = snapshot / (pages.block_tokens * per_token) if per_token else 0.0
    block = f"{pages.block_tokens:,} tokens at TP {setting.tp}, padding {100 * pages.padding:.2f}%"
    facts.append(("vLLM block", f"{block}; a prompt sent again hits from {pages.smallest_hit_tokens:,} tokens on"))
    facts.append(("", f"a snapshot at every block would cost {number(share)} times the block's cache"))
    reserved = vllm_reserved_bytes(shape, setting, max(contexts), pages=pages)
    facts.append(("", f"vLLM counts {binary(reserved)} of a rank for one request of {max(contexts):,} tokens"))
    return facts


def _lengths(subject: Subject, contexts: Sequence[int]) -> Table:
    shape, rank = subject.shape, subject.rank_setting
    split = shape.heads_divide(rank.tp)
    rank_name = "one rank, DP attention" if subject.dp_attention else f"each rank, TP {rank.tp}"
    rows = []
    for context in contexts:
        full = sequence_bytes(shape, subject.whole_setting, context)
        on_rank = sequence_bytes(shape, rank, context).total_bytes if split else None
        ratio = None if full.all_attention_bytes is None else full.all_attention_bytes / full.total_bytes
        ratio_text = NOT_REPORTED if ratio is None else f"{number(ratio)}x"
        shown = [full.kv_bytes, full.state_bytes, full.total_bytes, full.all_attention_bytes]
        rows.append((f"{context:,}", *(binary(item) for item in shown), ratio_text, binary(on_rank)))
    headings = ("context", "cache", "state", "total", "all attention", "ratio", rank_name)
    return _plain_table("lengths", "One sequence", headings, rows)


def _node_text(subject: Subject, budget: NodeBudget, contexts: Sequence[int]) -> str:
    taken = f"{budget.loaded_bytes / GB:,.0f} GB loaded"
    if budget.reserve_bytes:
        taken += f", {budget.reserve_bytes / GB:,.0f} GB reserved"
    node = f"{budget.node.label}: {budget.node.total_bytes / GB:,.0f} GB, {taken}"
    kept = f", {subject.setting.snapshots} snapshots kept for each" if subject.setting.snapshots else ""
    head = f"{node}, {budget.free_bytes / GB:,.0f} GB free; sessions that fit{kept}"
    fits = [sessions(subject.shape, subject.setting, budget, context) for context in contexts]
    rows = [(f"{fit.context_tokens:,}", whole(fit.sessions_tp), whole(fit.sessions_dp_attention)) for fit in fits]
    table = _plain_table("node", head, ("context", f"TP {subject.setting.tp}", "DP attention"), rows)
    return f"{head}\n{table_text(table)}"


def _beside(subjects: Sequence[Subject], contexts: Sequence[int]) -> Table:
    rows = [
        (
            subject.shape.name,
            f"{kv_bytes_per_token(subject.shape, subject.whole_setting):,}",
            *(
                binary(sequence_bytes(subject.shape, subject.whole_setting, context).total_bytes)
                for context in contexts
            ),
        )
        for subject in subjects
    ]
    return _plain_table("models", "Models", ("model", "B a token", *(f"{context:,}" for context in contexts)), rows)


def _plain_table(slug: str, title: str, headings: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(
        slug=slug,
        title=title,
        headings=tuple(headings),
        rows=tuple(rows),
        groups=(),
        metrics=tuple(headings),
        values=tuple(rows),
    )


def measured_text(comparison: Comparison) -> str:
    """The server's figures beside the computed ones."""
    rows = [(row.what, whole(row.reported), whole(row.computed)) for row in comparison.rows]
    table = _plain_table("measured", "Measured", ("the server's cache", "reported", "by the config"), rows)
    lines = [table_text(table)]
    said = comparison.reported.state_dtype
    if said is not None:
        lines.append(f"state type, by the server: {said}")
    if comparison.reported.block_tokens is not None:
        implied = " or ".join(comparison.implied_state_dtypes)
        lines.append(f"state type that explains the block: {implied or 'none (another TP, or another model?)'}")
    return "\n".join(lines)
