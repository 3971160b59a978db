"""How long the prompts of the plan are made, by what is known of the server."""

from __future__ import annotations

import pytest

from harness.checks.check import CheckBudget, PlanRequest
from harness.checks.eviction.check import plan
from harness.checks.history import Capabilities
from workloads.material import Material
from workloads.plan import Json
from workloads.text import approximate_count


def longest(known: Capabilities, max_model_len: int | None = None) -> object:
    request = PlanRequest(
        budget=CheckBudget(name="normal", prompts=32),
        material=Material(seed=1, count=approximate_count),
        capabilities=known,
        seed=1,
        max_model_len=max_model_len,
    )
    return plan(request).parameters["longest_tokens"]


@pytest.mark.parametrize(
    ("chunk", "speculation", "tokens"),
    [(2048, True, 2048 + 64 + 64), (2048, False, 768), (8192, True, 768), (None, True, 768), (512, True, 768)],
)
def test_beside_drafts_prompts_reach_beyond_a_prefill_chunk_that_is_known(
    chunk: int | None, speculation: bool, tokens: int
) -> None:
    assert longest(Capabilities(chunk_tokens=chunk, speculation=speculation, block_tokens=64)) == tokens


def test_large_blocks_make_long_prompts_and_the_context_bounds_them() -> None:
    assert longest(Capabilities(block_tokens=640)) == 3 * 640 + 64
    assert longest(Capabilities(block_tokens=640), max_model_len=1024) == 1024 - 64


@pytest.mark.parametrize(
    ("engine", "fields", "by_id"),
    [("vllm", {"logprobs": 20}, True), ("vllm", {}, False), ("sglang", {"logprobs": 20}, False)],
)
def test_tables_are_asked_for_by_id_where_the_server_names_tokens_by_their_text(
    engine: str, fields: dict[str, Json], by_id: bool
) -> None:
    request = PlanRequest(
        budget=CheckBudget(),
        material=Material(seed=1, count=approximate_count),
        capabilities=Capabilities(engine=engine),
        seed=1,
        logprob_fields=fields,
    )
    assert dict(request.table_fields) == {**fields, **({"return_tokens_as_token_ids": True} if by_id else {})}
