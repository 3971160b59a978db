"""Every engine's dialect, one file each; those that differ in data alone share one."""

from __future__ import annotations

from collections.abc import Mapping

from harness.endpoint.dialects.base import Dialect
from harness.endpoint.dialects.generic import DYNAMO, GENERIC, LITELLM, OPENROUTER, TENSORRT_LLM
from harness.endpoint.dialects.llama_cpp import LLAMA_CPP
from harness.endpoint.dialects.sglang import SGLANG
from harness.endpoint.dialects.vllm import VLLM

DIALECTS: Mapping[str, Dialect] = {
    each.name: each for each in (VLLM, SGLANG, LLAMA_CPP, TENSORRT_LLM, DYNAMO, LITELLM, OPENROUTER)
}


def dialect_of(engine: str | None) -> Dialect:
    """The dialect of an engine as TargetInfo names it; the generic one for an engine that is not known."""
    return GENERIC if engine is None else DIALECTS.get(engine, GENERIC)


def enabled_by(engine: str | None, capability: str) -> str:
    """The flag or body field that switches a capability on for an engine; empty if nothing is known to."""
    return dialect_of(engine).enable_with.get(capability, "")
