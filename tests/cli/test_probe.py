"""What `probe` refuses before anything is sent, and what probe.json says of a run that only measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import orjson
import pytest
from click.testing import CliRunner

from harness.checks.history import Capabilities
from harness.cli.probe import probe_command
from harness.drive.probing import PROBE_FILE, TRIED, keep_probe, with_tried
from harness.endpoint.probe.names import CAPABILITIES
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.store import RunFolder
from tests.endpoint.recordings import page
from tests.store.samples import run_info
from tests.virtual_time import VirtualClock, run_virtual


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--note", "state"), "write KEY=VALUE"),
        (("--extra-body", "{"), "--extra-body is not JSON"),
        (("--extra-body", '{"temperature": 1}'), "--extra-body may not set temperature"),
        (("--header", "nonsense"), "--header"),
        (("--metrics-url", "ftp://x"), "--metrics-url"),
        (("--request-timeout", "0"), "must be above 0"),
        (("--base-url", "ftp://x"), "must start with http:// or https://"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(probe_command, arguments, env={"OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""})
    assert isinstance(result.exception, SystemExit) and result.exit_code == click.UsageError.exit_code
    assert words in result.output


class CountersOnly:
    """A server of which a run reads the counters and nothing else."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @property
    def target(self) -> Target:
        return Target(base=normalise_base_url("http://x"), model="m")

    async def get_text(self, path: str) -> str:
        self.asked.append(path)
        return page("vllm-qwen3/get_metrics_end")


def test_a_run_keeps_what_costs_nothing_and_leaves_the_rest_open(tmp_path: Path) -> None:
    info = run_info()
    info = replace(info, target=replace(info.target, engine="vllm", details={"drafts": False}))
    server = CountersOnly()

    async def main(clock: VirtualClock) -> None:
        with RunFolder.create(tmp_path, info) as run:
            await keep_probe(run, server)

    run_virtual(main)
    content = orjson.loads((tmp_path / info.run_id / PROBE_FILE).read_bytes())
    assert server.asked == ["/metrics"]
    works = {name: each["works"] for name, each in content["capabilities"].items()}
    assert works == {**dict.fromkeys(CAPABILITIES), "counters": True}
    assert content["settings"]["speculation"]["value"] == "none"


def test_what_a_capability_round_tried_is_in_it(tmp_path: Path) -> None:
    info = run_info()

    async def main(clock: VirtualClock) -> None:
        with RunFolder.create(tmp_path, info) as run:
            found = await keep_probe(run, CountersOnly())
        tried = with_tried(found, Capabilities(salt=True, flush=False, logprobs=5))
        assert (tried.works("salt"), tried.works("flush"), tried.works("cache_bypass")) == (True, False, None)
        assert (tried.works("logprobs"), tried.works("top_logprobs_20")) == (True, False)
        assert tried.capabilities["salt"].how == TRIED and not tried.capabilities["salt"].enable_with

    run_virtual(main)
