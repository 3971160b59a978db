"""The other side: what a running server says of its cache, beside what the config says it should be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.memory.pages import vllm_pages, vllm_reserved_bytes
from harness.memory.sequence import DECLARED, Setting, StateDtype, kv_bytes_per_token, snapshot_bytes
from harness.memory.shape import ModelShape
from workloads.plan import Json

GIB = 1 << 30
KERNEL_BLOCKS = (16, 32, 64, 128)  # tokens that attention kernels of different back ends work in
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
VLLM_INFO = "vllm:cache_config_info"
STATE_SLOTS = ("sglang:mamba_available_tokens", "sglang:mamba_evictable_tokens", "sglang:mamba_used_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A server's own account of its cache, on one rank. None: it does not say.

    token_capacity: tokens of cache. blocks, block_tokens: vLLM's pool. state_slots: SGLang's pool of states.
    cache_bytes: memory set aside. tp: ranks attention is split over. state_dtype: the server's word for it.
    max_model_len: the longest sequence it takes. prefix_caching: whether finished blocks are kept.
    """

    engine: str
    token_capacity: int | None = None
    blocks: int | None = None
    block_tokens: int | None = None
    state_slots: int | None = None
    cache_bytes: int | None = None
    tp: int | None = None
    state_dtype: str | None = None
    max_model_len: int | None = None
    prefix_caching: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure on both sides, in the unit its name ends with; None where a side has none."""

    what: str
    reported: float | None
    computed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The reported figures beside the computed ones. implied_state_dtypes: those that explain the reported block."""

    reported: Reported
    rows: tuple[Row, ...]
    implied_state_dtypes: tuple[StateDtype, ...]


def read_vllm(counters: Mapping[str, float], max_model_len: int | None) -> Reported | None:
    """What vLLM's `cache_config_info` says; None if the counters do not have it."""
    key = next((name for name in counters if name.startswith(VLLM_INFO + "{")), None)
    if key is None:
        return None
    labels = dict(_LABEL.findall(key))
    ssm, whole = labels.get("mamba_ssm_cache_dtype"), labels.get("mamba_cache_dtype")
    return Reported(
        engine="vllm",
        token_capacity=_whole(labels.get("kv_cache_size_tokens")),
        blocks=_whole(labels.get("num_gpu_blocks")),
        block_tokens=_whole(labels.get("block_size")),
        cache_bytes=_whole(labels.get("kv_cache_memory_bytes")),
        state_dtype=next((word for word in (ssm, whole) if word not in (None, "auto", "None")), None),
        max_model_len=max_model_len,
        prefix_caching={"True": True, "False": False}.get(labels.get("enable_prefix_caching", "")),
    )


def read_sglang(counters: Mapping[str, float], server_info: Mapping[str, Json], max_model_len: int | None) -> Reported:
    """What SGLang's gauges and `/server_info` say; a gauge wins over the page."""
    tokens = _gauge(counters, "sglang:max_total_num_tokens")
    slots = [_gauge(counters, name) for name in STATE_SLOTS]
    known = [slot for slot in slots if slot is not None]
    tp, dp = server_info.get("tp_size"), server_info.get("dp_size")
    if isinstance(tp, int) and isinstance(dp, int) and dp > 1 and server_info.get("enable_dp_attention") is True:
        tp = max(tp // dp, 1)
    from_page = server_info.get("max_total_num_tokens")
    dtype = server_info.get("mamba_ssm_dtype")
    return Reported(
        engine="sglang",
        token_capacity=tokens if tokens is not None else (from_page if isinstance(from_page, int) else None),
        state_slots=sum(known) if known else None,
        cache_bytes=_sglang_cache_bytes(server_info),
        tp=tp if isinstance(tp, int) else None,
        state_dtype=dtype if isinstance(dtype, str) else None,
        max_model_len=max_model_len,
    )


def _sglang_cache_bytes(server_info: Mapping[str, Json]) -> int | None:
    states = server_info.get("internal_states")
    first = states[0] if isinstance(states, list) and states else None
    usage = first.get("memory_usage") if isinstance(first, Mapping) else None
    gib = usage.get("kvcache") if isinstance(usage, Mapping) else None
    return round(gib * GIB) if isinstance(gib, int | float) and not isinstance(gib, bool) else None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _gauge(counters: Mapping[str, float], name: str) -> int | None:
    """The largest value over ranks: they all report the same pool."""
    values = [value for key, value in counters.items() if key.split("{")[0] == name]
    return int(max(values)) if values else None


def compare(shape: ModelShape, setting: Setting, reported: Reported) -> Comparison:
    """Put the server's figures beside the config's; the server's own tp and state type take precedence over ours."""
    dtype = DECLARED.get(reported.state_dtype or "", setting.state_dtype)
    served = replace(setting, tp=reported.tp if reported.tp is not None else setting.tp, state_dtype=dtype)
    rows = _vllm_rows(shape, served, reported) if reported.engine == "vllm" else _pool_rows(shape, served, reported)
    return Comparison(reported=reported, rows=rows, implied_state_dtypes=implied_state_dtypes(shape, served, reported))


def implied_state_dtypes(shape: ModelShape, setting: Setting, reported: Reported) -> tuple[StateDtype, ...]:
    """The state types under which vLLM's rule gives the block that the server reports; empty if none does."""
    if reported.block_tokens is None:
        return ()
    return tuple(
        dtype
        for dtype in StateDtype
        if _kernel_block(shape, replace(setting, state_dtype=dtype), reported.block_tokens) is not None
    )


def _kernel_block(shape: ModelShape, setting: Setting, block_tokens: int) -> int | None:
    """The kernel block under which the rule gives this block; None if none does."""
    for kernel in KERNEL_BLOCKS:
        pages = vllm_pages(shape, setting, kernel_block_tokens=kernel)
        if pages is not None and pages.block_tokens == block_tokens:
            return kernel
    return None


def _vllm_rows(shape: ModelShape, setting: Setting, reported: Reported) -> tuple[Row, ...]:
    kernel = None if reported.block_tokens is None else _kernel_block(shape, setting, reported.block_tokens)
    pages = vllm_pages(shape, setting, kernel_block_tokens=kernel) if kernel else vllm_pages(shape, setting)
    length, memory = reported.max_model_len, reported.cache_bytes
    capacity = None
    if length is not None and memory is not None:
        caching = reported.prefix_caching is not False
        need = vllm_reserved_bytes(shape, setting, length, pages=pages, prefix_caching=caching)
        need = length * kv_bytes_per_token(shape, setting) if need is None else need
        capacity = memory * length / need if need else None
    rows = [Row(what="capacity, tokens", reported=reported.token_capacity, computed=capacity)]
    if pages is not None:
        rows.append(Row(what="block, tokens", reported=reported.block_tokens, computed=pages.block_tokens))
    rows.append(Row(what="blocks of the pool", reported=reported.blocks, computed=None))
    rows.append(Row(what="cache memory of a rank, bytes", reported=memory, computed=None))
    return tuple(rows)


def _pool_rows(shape: ModelShape, setting: Setting, reported: Reported) -> tuple[Row, ...]:
    tokens, slots = reported.token_capacity, reported.state_slots
    cache = None if tokens is None else tokens * kv_bytes_per_token(shape, setting)
    states = None if slots is None else slots * snapshot_bytes(shape, setting)
    return (
        Row(what="capacity, tokens", reported=tokens, computed=None),
        Row(what="cache of these tokens on a rank, bytes", reported=reported.cache_bytes, computed=cache),
        Row(what="state slots", reported=slots, computed=None),
        Row(what="states of these slots on a rank, bytes", reported=None, computed=states),
    )
