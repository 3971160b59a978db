"""vLLM's pages: the attention block is raised until it holds a whole state; the prefix cache works in such blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.memory.sequence import Engine, Setting
from harness.memory.shape import LayerKind, ModelShape

KERNEL_BLOCK_TOKENS = 16
MLA_BLOCK_TOKENS = 128
POOLED_TOGETHER = 1.5  # kinds of layers whose numbers differ by less than this are pooled at the larger number


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The block of a hybrid model and what follows from it.

    block_tokens: tokens of an attention block; a state is cached at most at its ends. state_page_bytes: one layer's
    state on one rank. attention_page_bytes: one layer's block on one rank. smallest_hit_tokens: the shortest prompt
    that hits anything when it is sent again.
    """

    block_tokens: int
    state_page_bytes: int
    attention_page_bytes: int
    smallest_hit_tokens: int

    @property
    def padding(self) -> float:
        """What the state's page is blown up by to match (0.0149: 1.49%)."""
        return self.attention_page_bytes / self.state_page_bytes - 1


def vllm_pages(
    shape: ModelShape,
    setting: Setting,
    *,
    attention_token_bytes: int | None = None,
    kernel_block_tokens: int = KERNEL_BLOCK_TOKENS,
) -> Pages | None:
    """The block size vLLM settles on; None for a model without both attention and states.

    B = A * ceil(state page / (A * attention bytes a token)), with A the tokens the attention kernels work in, at least
    128 for MLA (`_align_hybrid_block_size` of vllm/platforms/interface.py, 0.33). attention_token_bytes: one layer's on
    one rank, where a data type adds scales to the values. Under speculation the state page holds a convolution row more
    for each draft token, and the last matched block is dropped.
    """
    state_page = _state_page_bytes(shape, setting)
    token_bytes = _attention_token_bytes(shape, setting) if attention_token_bytes is None else attention_token_bytes
    if state_page == 0 or token_bytes == 0:
        return None
    unit = max(kernel_block_tokens, MLA_BLOCK_TOKENS) if _latent(shape) else kernel_block_tokens
    block = unit * math.ceil(state_page / (unit * token_bytes))
    return Pages(
        block_tokens=block,
        state_page_bytes=state_page,
        attention_page_bytes=block * token_bytes,
        smallest_hit_tokens=2 * block if setting.draft_tokens else block + 1,
    )


def _state_page_bytes(shape: ModelShape, setting: Setting) -> int:
    """The largest state of one layer on one rank; 0 without recurrent layers."""
    extra_rows = setting.draft_tokens if setting.engine is Engine.VLLM else 0
    pages = [
        layer.state_values(setting.tp) * setting.state_dtype.value_bytes
        + layer.conv_values(setting.tp, extra_rows) * setting.conv_value_bytes
        for layer in (group.recurrent for group in shape.recurrent_groups())
        if layer is not None
    ]
    return max(pages, default=0)


def _attention_token_bytes(shape: ModelShape, setting: Setting) -> int:
    """Bytes a token of one attention layer on one rank; 0 without attention."""
    layers = [group.attention for group in shape.attention_groups() if group.attention is not None]
    values = max((layer.values_per_token(setting.tp) for layer in layers), default=0)
    return values * setting.kv_dtype.value_bytes


def _latent(shape: ModelShape) -> bool:
    kinds = (group.attention.kind for group in shape.attention_groups() if group.attention is not None)
    return LayerKind.MLA in kinds


def vllm_reserved_bytes(
    shape: ModelShape,
    setting: Setting,
    context_tokens: int,
    *,
    pages: Pages | None = None,
    prefix_caching: bool = True,
) -> int | None:
    """Bytes on one rank that vLLM counts for one request of full length; None for a model without pages.

    Layers are pooled: a block of the pool is one page of each of `pool` layers, recurrent and attention layers filling
    pool blocks of their own. A request takes its blocks of attention, and of states two with prefix caching (one
    without) and one for each draft token (vllm/v1/core/kv_cache_utils.py). pages: those of `vllm_pages`, if at hand.
    """
    pages = vllm_pages(shape, setting) if pages is None else pages
    if pages is None:
        return None
    drafting = shape.mtp.count if shape.mtp is not None and setting.draft_tokens else 0
    attending = sum(group.count for group in shape.attention_groups()) + drafting
    recurrent = sum(group.count for group in shape.recurrent_groups())
    fewer, more = sorted((attending, recurrent))
    pool = more if more < POOLED_TOGETHER * fewer else fewer
    attention_blocks = math.ceil(attending / pool) * math.ceil(context_tokens / pages.block_tokens)
    state_blocks = math.ceil(recurrent / pool) * ((2 if prefix_caching else 1) + setting.draft_tokens)
    return (attention_blocks + state_blocks) * pool * pages.attention_page_bytes
