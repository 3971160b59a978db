"""The picture: lines for what is compared, a ring where a hybrid begins to pay."""

from __future__ import annotations

from harness.report.memory_figure import DASHED, RING, memory_against_context
from tests.memory.samples import FP32, LING, M1, shape


def test_a_hybrid_has_its_line_its_comparison_and_a_ring() -> None:
    drawing = memory_against_context([(LING, FP32)], M1)
    assert len(drawing.figure.axes[0].lines) == 3
    legend = drawing.figure.axes[0].get_legend()
    assert legend is not None and legend.get_title().get_text() == f"{DASHED}; {RING}"
    assert "ling-3.1-flash is level with attention in every layer at 3,769 tokens" in drawing.words


def test_pure_attention_has_one_line() -> None:
    drawing = memory_against_context([(shape("deepseek-v3"), FP32)], M1)
    assert len(drawing.figure.axes[0].lines) == 1
    legend = drawing.figure.axes[0].get_legend()
    assert legend is not None and not legend.get_title().get_text()
    assert "level" not in drawing.words


def test_a_model_without_attention_is_flat() -> None:
    line = memory_against_context([(shape("mamba2-780m"), FP32)], M1).figure.axes[0].lines[0]
    assert len(set(line.get_ydata())) == 1


def test_models_that_take_the_same_share_a_line() -> None:
    models = [(shape(name), FP32) for name in ("deepseek-v3", "llama-3.1-405b", "kimi-k2")]
    lines = memory_against_context(models, M1).figure.axes[0].lines
    assert [line.get_label() for line in lines] == ["deepseek-v3, kimi-k2", "llama-3.1-405b"]
