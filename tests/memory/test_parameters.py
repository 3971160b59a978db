"""Parameters counted from configs, against the totals of the checkpoints themselves."""

from __future__ import annotations

import pytest

from harness.cli.memory import load_preset, preset_names
from harness.memory.model import read_model
from harness.memory.parameters import Component, ParameterCount, Part, explain_active
from tests.memory.samples import TINY_BAILING, model


def count_of(preset: str) -> ParameterCount:
    count = model(preset).parameters
    assert count is not None
    return count


def test_qwen3_next_is_counted_to_the_last_parameter() -> None:
    assert count_of("qwen3-next-80b").total() == 79_674_391_296
    assert count_of("qwen3-next-80b").active() == 3_874_929_408


def test_nemotron_3_super_differs_by_its_router_biases_alone() -> None:
    count = count_of("nemotron-3-super-120b")
    biases = 40 * 512
    assert count.total() - biases == 123_611_012_096 - 2_942_324_736
    assert count.active() - biases == 12_770_216_960


@pytest.mark.parametrize("preset", [name for name in preset_names() if load_preset(name).total_parameters])
def test_totals_are_within_three_percent_of_the_published_ones(preset: str) -> None:
    count = count_of(preset)
    for claim in load_preset(preset).total_parameters:
        nearest = min((count.total(), count.total() + count.mtp), key=lambda counted: abs(counted - claim.value))
        assert nearest == pytest.approx(claim.value, rel=0.03)


def test_weights_of_572_gb_are_one_byte_a_parameter_with_the_mtp_layer() -> None:
    count = count_of("ling-3.1-flash")
    assert count.total() + count.mtp == pytest.approx(572e9, rel=0.002)


def test_the_cards_25b_is_everything_a_token_passes_through() -> None:
    found = explain_active(count_of("ling-3.1-flash"), 25e9)
    assert found.counting.startswith("everything")
    assert abs(found.deviation) < 0.01


def test_the_cookbooks_17b_comes_nearest_to_what_every_token_shares() -> None:
    count = count_of("ling-3.1-flash")
    found = explain_active(count, 17e9)
    assert "without the routed experts" in found.counting
    assert found.counted == count.active() - count.by_part()[Part.ROUTED].active
    assert abs(found.deviation) < 0.03


def test_ling_3_0_flash_is_5_1b_without_and_5_5b_with_the_input_embedding() -> None:
    count = count_of("ling-3.0-flash")
    assert count.active(without=[Part.EMBEDDING]) == pytest.approx(5.1e9, rel=0.005)
    assert count.active() == pytest.approx(5.5e9, rel=0.005)
    assert count.mtp == pytest.approx(3.1e9, rel=0.02)


def test_a_token_passes_through_part_of_the_routed_experts_only() -> None:
    routed = count_of("ling-3.1-flash").by_part()[Part.ROUTED]
    assert routed.active * 512 == routed.total * 8


def test_a_tied_table_is_counted_once() -> None:
    parts = count_of("mamba2-780m").by_part()
    assert parts[Part.EMBEDDING].total == 0
    assert parts[Part.HEAD].total == 50_288 * 1_536


def test_the_mtp_layer_is_in_no_total() -> None:
    parts = (
        Component(part=Part.HEAD, total=3, active=3),
        Component(part=Part.MTP, total=100, active=100),
    )
    count = ParameterCount(components=parts)
    assert (count.total(), count.active(), count.mtp) == (3, 3, 100)


def test_a_config_that_says_too_little_is_still_read_for_its_memory() -> None:
    read = read_model("tiny", TINY_BAILING)
    assert read.parameters is None
    assert read.parameters_missing is not None and "hidden_size" in read.parameters_missing
