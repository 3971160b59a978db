"""Faults on the command lines: listed, planted, refused."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

from click.testing import CliRunner

from harness.cli.serve import serve
from harness.reference.faults.registry import FAULTS
from harness.reference.options import EngineOptions, from_values

TIMEOUT_S = 60
REFERENCE = [sys.executable, "-m", "harness.reference"]


def test_both_commands_list_the_faults() -> None:
    alone = subprocess.run([*REFERENCE, "--list-faults"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    listed = CliRunner().invoke(serve, ["--list-faults"])
    assert alone.stdout == listed.output
    assert [line.split()[0] for line in alone.stdout.splitlines()] == list(FAULTS)


def test_a_fault_that_does_not_exist_exits_2() -> None:
    wrong = subprocess.run(
        [*REFERENCE, "--fault", "K16"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (wrong.returncode, wrong.stderr.startswith("error: no fault 'K16'")) == (2, True)


def test_several_faults_are_several_options() -> None:
    assert from_values({"fault": ["K05", "K30:mode=null"]}) == EngineOptions(fault=("K05", "K30:mode=null"))
    assert from_values({"fault": []}) == EngineOptions()


def test_a_gateway_stands_before_the_engine_and_names_it() -> None:
    command = [*REFERENCE, "--fault", "K35:mode=double", "--fault", "K32:mode=negative"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            address = json.loads(running.stdout.readline())
            prompt = list(range(10, 210))
            cold, hit = cached(address["direct"], prompt), cached(address["direct"], prompt)
            assert (cold, cached(address["listening"], prompt)) == (-1, 2 * hit)
        finally:
            running.terminate()
        assert running.wait(TIMEOUT_S) == 0


def cached(url: str, prompt: list[int]) -> int:
    body = json.dumps({"prompt": prompt, "max_tokens": 2, "temperature": 0}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        return int(json.load(response)["usage"]["prompt_tokens_details"]["cached_tokens"])
