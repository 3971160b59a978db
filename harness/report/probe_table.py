"""What a probe found, for the terminal."""

from __future__ import annotations

from textwrap import wrap

from harness.endpoint.dialects import dialect_of
from harness.endpoint.probe.names import CAPABILITIES, SETTINGS
from harness.endpoint.probe.result import Capability, ProbeResult

WIDTH = 118
_WORDS = {True: "yes", False: "no", None: "?"}


def probe_table(result: ProbeResult) -> str:
    """Head, settings, capabilities: what works, how that was seen, and what switches on what does not."""
    name_width = max(map(len, (*result.capabilities, *result.settings)))
    lines = [_head(result), "", *_settings(result, name_width), ""]
    for name, capability in result.capabilities.items():
        lines += _row(name, capability, name_width)
    lines.append("\nyes: seen to work; no: tried, does not; ?: not tried, or it could not be told")
    return "\n".join(lines)


def _head(result: ProbeResult) -> str:
    engine = "an engine that does not name itself" if result.engine is None else dialect_of(result.engine).title
    version = "" if result.version is None else f" {result.version}"
    context = "unknown" if result.max_model_len is None else f"{result.max_model_len:,} tokens"
    return f"{engine}{version}, model {result.model}, context {context}; {result.requests} requests"


def _settings(result: ProbeResult, width: int) -> list[str]:
    lines = []
    for name, setting in result.settings.items():
        value = f"unknown; record it with {setting.note}" if setting.value is None else f"{setting.value}"
        source = f" ({setting.note})" if setting.value is not None and setting.note else ""
        lines.append(f"{name:<{width}}  {value}{source}  [{SETTINGS.get(name, name)}]")
    return lines


def _row(name: str, capability: Capability, width: int) -> list[str]:
    indent = " " * (width + 7)
    about = f"{CAPABILITIES.get(name, name)}: {capability.how}"
    lines = wrap(about, WIDTH - len(indent), break_on_hyphens=False) or [""]
    if capability.enable_with and not capability.works:
        lines += wrap(f"switch on: {capability.enable_with}", WIDTH - len(indent), break_on_hyphens=False)
    first = f"{name:<{width}}  {_WORDS[capability.works]:<3}  {lines[0]}"
    return [first, *(indent + line for line in lines[1:])]
