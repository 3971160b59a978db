"""The cells of a sweep over contexts, rates and rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from harness.cli import making
from harness.cli.counting import by_characters
from harness.cli.grid import capacity_tokens, cells_in_order, describe_grid, length_warnings, plan_grid
from harness.cli.material import Material, load_material
from harness.cli.options import SweepOptions, parse_mix, parse_rates
from harness.cli.workload_options import read_mix_file
from harness.records import TargetInfo

TRACES = Path(__file__).resolve().parents[1] / "fixtures" / "traces"


def options(**more: Any) -> SweepOptions:
    return SweepOptions(
        **{"concurrency": (1, 4), "dataset_name": "random", "num_prompts": 8, "input_tokens": 64, **more}
    )


def names(**more: Any) -> list[str]:
    chosen = options(**more)
    plans = plan_grid(chosen, by_characters(), load_material(chosen))
    return [spec.cell for _, spec in cells_in_order(plans, chosen.num_runs)]


def test_contexts_and_levels_are_a_grid() -> None:
    cells = names(contexts=(64, 128), input_tokens=None)
    assert cells == ["random-n0000064-c0001", "random-n0000064-c0004", "random-n0000128-c0001", "random-n0000128-c0004"]


def test_rates_are_cells_of_their_own() -> None:
    assert names(request_rates=("2", "inf")) == ["random-q2-s", "random-qinf"]


def test_rounds_take_turns() -> None:
    assert names(num_runs=2) == ["random-c0001-r0", "random-c0004-r0", "random-c0001-r1", "random-c0004-r1"]


def test_a_trace_has_one_cell_at_its_own_times() -> None:
    path = str(TRACES / "mooncake_head.jsonl")
    assert names(dataset_name="trace", dataset_path=path, timed=True, speed=4.0, input_tokens=None) == [
        "trace-qtrace-x4"
    ]


def test_options_survive_the_run_folder() -> None:
    chosen = options(
        request_rates=("2", "inf"), mix=({"name": "a", "weight": 1.0},), contexts=(), ramp={"shape": "linear"}
    )
    assert SweepOptions.from_json(chosen.as_json()) == chosen


@pytest.mark.parametrize(
    "wrong",
    [
        {"contexts": (8, 8), "input_tokens": None},
        {"contexts": (8,)},
        {"request_rates": ("0",)},
        {"timed": True},
        {"dataset_name": "trace"},
        {"num_runs": 0},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        options(**wrong)


def test_rates_and_mixes_are_read() -> None:
    assert parse_rates("1, 2.50,inf") == ("1", "2.5", "inf")
    assert [each["weight"] for each in parse_mix("agent=0.7,text=0.3")] == [0.7, 0.3]
    for wrong in ("agent", "agent=x", "agent=-1"):
        with pytest.raises(ValueError):
            parse_mix(wrong)


def test_a_mix_comes_from_a_file_with_sizes(tmp_path: Path) -> None:
    path = tmp_path / "mix.toml"
    sizes = {"long": "weight = 1\ninput_tokens = 256\noutput_tokens = 4", "short": "weight = 3\ninput_tokens = 32"}
    path.write_text(
        "".join(f'[[class]]\nname = "{name}"\nworkload = "random"\n{each}\n' for name, each in sizes.items())
    )
    chosen = options(dataset_name="mix", mix=read_mix_file(path), input_tokens=None)
    (plan,) = plan_grid(chosen, by_characters())
    assert plan.cost.requests == 8 and plan.cost.longest_prompt_tokens >= 256


@pytest.mark.parametrize("text", ["", "x = 1", "class = 3", "[[class"])
def test_a_file_without_classes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mix.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"mix\.toml"):
        read_mix_file(path)


def test_a_mix_of_what_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="no workload"):
        plan_grid(options(dataset_name="mix", mix=({"name": "x", "weight": 1.0},), input_tokens=None), by_characters())


def info(**more: Any) -> TargetInfo:
    return TargetInfo(base_url="u", chosen_by="option", model="m", endpoint_type="chat", **more)


@pytest.mark.parametrize(
    "details, length, capacity",
    [
        ({"max_total_num_tokens": 300}, None, 300),
        ({"cache_config_info": 'vllm:cache_config_info{block_size="16",num_gpu_blocks="10"}'}, None, 160),
        ({"total_slots": 2}, 4096, 8192),
        ({}, 4096, None),
    ],
)
def test_a_working_set_beyond_the_servers_cache_is_announced(
    details: dict[str, Any], length: int | None, capacity: int | None
) -> None:
    told = info(details=details, max_model_len=length)
    assert capacity_tokens(told) == capacity
    plans = plan_grid(options(input_tokens=200), by_characters())
    warned = [text for text in length_warnings(plans, told) if "in flight" in text]
    assert bool(warned) == (capacity is not None and capacity < 4 * 300)


def test_the_cost_of_every_point_is_told() -> None:
    chosen = options(contexts=(64, 128), input_tokens=None, num_runs=3)
    told = describe_grid(plan_grid(chosen, by_characters()), 3)
    assert "64 tokens: cost" in told and "128 tokens: cost" in told and "3 times" in told


@pytest.mark.parametrize("name", ["agent", "text", "mix"])
def test_exact_lengths_are_refused_before_anything_is_sent(name: str) -> None:
    with pytest.raises(ValueError, match="--exact-lengths"):
        options(dataset_name=name, exact_lengths=True)


def test_a_trace_of_texts_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"prompt": "Hello there.", "output_tokens": 4}\n')
    chosen = options(dataset_name="trace", dataset_path=str(path), exact_lengths=True, input_tokens=None)
    with pytest.raises(click.UsageError, match="texts of its own"):
        load_material(chosen)


def test_prompts_are_told_of_while_they_are_made(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(making, "PLAIN_INTERVAL_S", 0.0)
    plan_grid(options(concurrency=(1,)), by_characters(), Material(progress=making.PromptProgress()))
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "making prompts: random, 64 tokens: 1 of 12 requests"
    assert told[-1] == "making prompts: random, 64 tokens: 12 of 12 requests" and len(told) == 12
