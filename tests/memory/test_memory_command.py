"""`ling-bench memory` as it is typed: its JSON, its tables, its picture, and its refusals."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.cli.exits import Exit
from harness.cli.main import ling_bench
from harness.cli.memory import preset_names
from tests.memory.samples import TINY_BAILING


def run(*arguments: str) -> Result:
    return CliRunner().invoke(ling_bench, ["memory", *arguments], catch_exceptions=False)


def document(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == Exit.PASS, result.output
    parsed: dict[str, Any] = json.loads(result.output)
    return parsed


def test_json_has_the_promised_keys_and_no_others() -> None:
    found = document("ling-3.1-flash", "--node", "8xH200")
    assert list(found) == ["models"]
    model = found["models"][0]
    assert list(model) == [
        "name", "kv_bytes_per_token", "state_bytes_per_sequence", "conv_bytes_per_sequence", "break_even_tokens",
        "per_sequence", "node",
    ]  # fmt: skip
    lengths = ["context_tokens", "kv_bytes", "state_bytes", "total_bytes", "all_attention_bytes"]
    assert [list(entry) for entry in model["per_sequence"]] == [lengths] * 4
    assert list(model["node"]) == ["free_bytes", "sessions"]
    sessions = ["context_tokens", "sessions_tp", "sessions_dp_attention"]
    assert [list(entry) for entry in model["node"]["sessions"]] == [sessions] * 4


def test_json_of_ling() -> None:
    model = document("ling-3.1-flash", "--context", "262144", "--node", "8xH200")["models"][0]
    assert (model["kv_bytes_per_token"], model["break_even_tokens"]) == (10_368, 3_641)
    assert model["state_bytes_per_sequence"] == 264_241_152
    assert model["conv_bytes_per_sequence"] == 9_289_728
    assert model["per_sequence"] == [
        {
            "context_tokens": 262_144,
            "kv_bytes": 2_717_908_992,
            "state_bytes": 273_530_880,
            "total_bytes": 2_991_439_872,
            "all_attention_bytes": 21_743_271_936,
        }
    ]
    assert model["node"]["free_bytes"] == 439 * 10**9
    assert model["node"]["sessions"] == [{"context_tokens": 262_144, "sessions_tp": 19, "sessions_dp_attention": 144}]


def test_without_a_node_the_json_says_null() -> None:
    assert document("deepseek-v3")["models"][0]["node"] is None


def test_dtypes_change_the_bytes() -> None:
    model = document("ling-3.1-flash", "--kv-dtype", "fp8", "--state-dtype", "bf16")["models"][0]
    assert (model["kv_bytes_per_token"], model["state_bytes_per_sequence"]) == (5_184, 132_120_576)


def test_several_models_stand_beside_each_other() -> None:
    assert [each["name"] for each in document("ling-3.1-flash", "kimi-k2")["models"]] == ["ling-3.1-flash", "kimi-k2"]
    assert "total of one sequence" in run("ling-3.1-flash", "kimi-k2").output


def test_a_config_is_read_from_a_file_or_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY_BAILING))
    for path in (folder, folder / "config.json"):
        assert document(str(path))["models"][0]["name"] == "my-model"


def test_the_table_says_what_an_operator_must_know() -> None:
    text = " ".join(run("ling-3.1-flash", "--node", "8xH200").output.split())
    for part in (
        "63 KDA, 9 MLA; 1 MTP",
        "10,368 B a token",
        "252 MiB a sequence, fp32; convolutions 8.86 MiB",
        "3,641 tokens",
        "config 262,144, card 1,000,000 tokens: they disagree, so plan on the config",
        "25.0B (model card) matches 25.1B",
        '17.0B (SGLang cookbook, "about 17B") comes nearest to 16.6B',
        "261 MiB = 26,382 tokens of cache",
        "512 tokens at TP 8, padding 8.68%; a prompt sent again hits from 513 tokens on",
        "1,128 GB, 689 GB loaded, 439 GB free",
    ):
        assert part in text


def test_dp_attention_shows_one_rank_with_everything() -> None:
    output = run("ling-3.1-flash", "--node", "8xH200", "--dp-attention", "--context", "262144").output
    assert "one rank, DP attention" in output
    assert "3,840 tokens at TP 1" in output


def test_lines_fit_a_terminal() -> None:
    assert max(len(line) for line in run(*preset_names()).output.splitlines()) <= 118


def test_heads_that_do_not_split_are_said_and_not_shown_as_numbers() -> None:
    output = run("ling-3.1-flash", "--tp", "7", "--context", "32K").output
    assert "the heads do not split over 7 ranks" in output


def test_the_weights_can_be_given_for_each_model() -> None:
    models = document("kimi-k2", "ling-3.0-flash", "--node", "8xH200", "--loaded-gb", "600", "--loaded-gb",
                      "ling-3.0-flash=130")["models"]  # fmt: skip
    assert [model["node"]["free_bytes"] / 1e9 for model in models] == [528, 998]


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture_is_written(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pictures" / f"memory.{kind}"
    assert run("ling-3.1-flash", "mamba2-780m", "gpt-oss-120b", "--figure", str(path)).exit_code == Exit.PASS
    content = path.read_bytes()
    if kind == "svg":
        ElementTree.fromstring(content)
    else:
        assert content.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a config.json or a preset"),
        (["no-such-model"], "neither a config.json nor a preset"),
        (["ling-3.1-flash", "--context", "32Q"], "'32Q' is not a length"),
        (["ling-3.1-flash", "--context", "0"], "'0' is not a length"),
        (["ling-3.1-flash", "--node", "8xTPU"], "memory of TPU is not known"),
        (["ling-3.1-flash", "--node", "2xH200"], "282 GB, and 689 GB are taken"),
        (["ling-3.1-flash", "--loaded-gb", "5"], "--loaded-gb needs --node"),
        (["ling-3.1-flash", "--node", "8xH200", "--loaded-gb", "much"], "write GB, or NAME=GB"),
        (["kimi-k2", "--node", "8xH200"], "what do the weights take?"),
        (["ling-3.1-flash", "--figure", "memory.gif"], "end the name in .png or .svg"),
        (["ling-3.1-flash", "--base-url", "ftp://x"], "--base-url"),
    ],
)
def test_usage_errors_say_what_to_do(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == Exit.USAGE
    assert said in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"model_type": "unheard_of"}', "'unheard_of' is not known"),
        ("[1]", "not a JSON object"),
        ("{", "cannot be read"),
    ],
)
def test_an_unreadable_config_exits_2_and_says_why(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "config.json").write_text(content)
    result = run(str(tmp_path))
    assert result.exit_code == Exit.USAGE
    assert said in " ".join(result.output.split())
