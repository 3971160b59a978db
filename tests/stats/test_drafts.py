"""Accounts of drafts in every engine's words."""

from __future__ import annotations

from harness.stats.drafts import Drafts, accepted_at, counted_drafts, drafts_of

VLLM = {
    "metrics": {
        "speculative_decoding": {
            "num_spec_steps": 10, "num_accepted_draft_tokens": 12, "num_draft_tokens": 30, "num_spec_tokens": 3,
            "acceptance_histogram": [3, 3, 3, 1],
        }
    }
}  # fmt: skip


def test_vllm() -> None:
    found = drafts_of(VLLM, 23)
    assert found == Drafts(steps=10, accepted=12, drafted=30, depth=3, histogram=(3, 3, 3, 1))
    assert found.acceptance_length == 2.2


def test_llama_cpp_steps_follow_from_the_length() -> None:
    found = drafts_of({"timings": {"predicted_n": 16, "draft_n": 20, "draft_n_accepted": 5}}, None)
    assert found == Drafts(steps=10, accepted=5, drafted=20, inferred=True)


def test_llama_cpp_without_drafts_says_nothing() -> None:
    assert drafts_of({"timings": {"predicted_n": 16}}, 16) is None


def test_sglang_by_either_route() -> None:
    fields = {"spec_verify_ct": 4, "spec_num_correct_drafts": 0, "spec_num_proposed_drafts": 12}
    for extra in ({"sglext": {"spec_tokens_details": fields}}, {"meta_info": fields}):
        found = drafts_of(extra, 9)
        assert found == Drafts(steps=4, accepted=0, drafted=12)
        assert found.acceptance_length == 1.0


def test_no_fields_are_none_and_no_steps_have_no_length() -> None:
    assert drafts_of({}, 9) is None
    assert drafts_of({"metrics": {"speculative_decoding": None}}, 9) is None
    assert Drafts(steps=0, accepted=0).acceptance_length is None


def test_counters_by_difference() -> None:
    before = {"spec_drafts": 5.0, "spec_accepted": 7.0, "generation_tokens": 20.0}
    after = {"spec_drafts": 9.0, "spec_accepted": 7.0, "generation_tokens": 25.0}
    assert counted_drafts(before, after) == Drafts(steps=4, accepted=0)


def test_counters_of_steps_alone_leave_accepted_drafts_to_the_tokens() -> None:
    before, after = {"spec_drafts": 0.0, "generation_tokens": 0.0}, {"spec_drafts": 4.0, "generation_tokens": 12.0}
    assert counted_drafts(before, after, answers=2) == Drafts(steps=4, accepted=6, inferred=True)


def test_counters_without_drafts_or_run_backwards_are_none() -> None:
    assert counted_drafts({"generation_tokens": 0.0}, {"generation_tokens": 9.0}) is None
    values = {"spec_drafts": 9.0, "spec_accepted": 1.0}
    assert counted_drafts(values, {"spec_drafts": 2.0, "spec_accepted": 1.0}) is None


def test_counters_by_position_give_steps_by_number_of_accepted_drafts() -> None:
    names = ("spec_drafts", "spec_accepted", accepted_at(0), accepted_at(1), accepted_at(2))
    before = dict(zip(names, (10.0, 8.0, 5.0, 2.0, 1.0), strict=True))
    after = dict(zip(names, (20.0, 19.0, 11.0, 6.0, 2.0), strict=True))
    found = counted_drafts(before, after)
    # Of ten steps six accepted the first draft, four the second, one the third.
    assert found is not None and found.histogram == (4, 2, 3, 1)
    assert sum(found.histogram) == found.steps == 10
    assert sum(number * count for number, count in enumerate(found.histogram)) == found.accepted


def test_counters_without_positions_give_no_histogram() -> None:
    found = counted_drafts({"spec_drafts": 0.0, "spec_accepted": 0.0}, {"spec_drafts": 3.0, "spec_accepted": 2.0})
    assert found is not None and found.histogram is None
