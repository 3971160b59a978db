from __future__ import annotations

import pytest

from harness.reference.config import ModelConfig, preset


def test_every_eighth_layer_attends_in_groups_of_eight() -> None:
    config = ModelConfig(layers=24, group_size=8)
    assert [layer for layer in range(24) if config.is_attention(layer)] == [7, 15, 23]


def test_a_tail_that_fills_no_group_attends() -> None:
    config = ModelConfig(layers=10, group_size=4)
    assert [layer for layer in range(10) if config.is_attention(layer)] == [3, 7, 8, 9]


def test_the_twin_has_the_same_sizes_and_no_linear_layer() -> None:
    hybrid, twin = preset("hybrid"), preset("attention")
    assert (hybrid.kda_layers, hybrid.mla_layers) == (5, 1)
    assert (twin.kda_layers, twin.mla_layers) == (0, 6)
    assert (hybrid.hidden_size, hybrid.layers, hybrid.experts) == (twin.hidden_size, twin.layers, twin.experts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": 0},
        {"rope_dim": 5},
        {"conv_kernel": 3},
        {"mtp_layers": 2},
        {"experts": 6, "expert_groups": 4},
        {"experts": 4, "expert_groups": 4},
        {"experts": 8, "expert_groups": 4, "groups_per_token": 1, "experts_per_token": 3},
    ],
)
def test_sizes_that_do_not_fit_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        ModelConfig(**wrong)
