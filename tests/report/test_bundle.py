"""A bundle replays by itself: every step with its order, the whole body, what was seen, and no need of this package."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.checks.cached_tokens.check import CACHED_TOKENS
from harness.drive.judging import judge_run
from harness.report.bundle import find, write_bundle
from harness.store import RunFolder
from tests.checks.running import run_simulated
from tests.checks.simulated_server import Served


def a_block_too_many(served: Served) -> int | None:
    return served.cached_tokens + 64 if served.cached_tokens else 0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    checked = run_simulated(CACHED_TOKENS, tmp_path_factory.mktemp("bundle"), report=a_block_too_many)
    judge_run(checked.run, {CACHED_TOKENS.name: CACHED_TOKENS})
    return checked.run


def bundle(run: RunFolder, name: str, folder: Path) -> list[dict[str, object]]:
    write_bundle(run, find(run, name), folder)
    steps = json.loads((folder / "steps.json").read_text())["steps"]
    assert isinstance(steps, list)
    return steps


def test_a_finding_brings_everything_it_rests_on(run: RunFolder, tmp_path: Path) -> None:
    steps = bundle(run, "cached-tokens#1", tmp_path / "b")
    assert steps[-1]["of_interest"] is True
    assert [step["key"] for step in steps] == ["r0/rung0/0", "r0/rung0/1"]
    assert steps[-1]["seen"]["cached_tokens"] == 1024  # type: ignore[index]
    body = json.loads((tmp_path / "b" / str(steps[-1]["body"])).read_text())
    assert len(body["prompt"]) == 1024 and body["model"] == "tiny" and body["temperature"] == 0


def test_a_request_that_builds_on_another_prompt_brings_it_too(run: RunFolder, tmp_path: Path) -> None:
    keys = [str(step["key"]) for step in bundle(run, _request(run, "r0/twin0/0"), tmp_path / "twin")]
    assert keys[-1] == "r0/twin0/0" and keys.count("r0/rung0/0") == 1
    keys = [str(step["key"]) for step in bundle(run, _request(run, "r0/crossed0/0"), tmp_path / "crossed")]
    assert keys[-1] == "r0/crossed0/0" and {"r0/rung0/0", "r0/spacing1/0"} < set(keys)


def _request(run: RunFolder, key: str) -> str:
    lines = (run.path / "cached-tokens-r0" / "history.jsonl").read_text().splitlines()
    return next(str(record["request_id"]) for record in map(json.loads, lines) if record.get("key") == key)


def test_steps_wait_for_those_that_had_ended(run: RunFolder, tmp_path: Path) -> None:
    steps = bundle(run, "cached-tokens#1", tmp_path / "b")
    assert steps[0]["after"] == [] and steps[1]["after"] == [0]


def test_an_unknown_name_lists_the_findings(run: RunFolder) -> None:
    with pytest.raises(LookupError, match="cached-tokens#1"):
        find(run, "cached-tokens#999")


def test_a_folder_that_exists_is_left_alone(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        write_bundle(run, find(run, "cached-tokens#1"), tmp_path)


def test_the_script_needs_the_standard_library_alone(run: RunFolder, tmp_path: Path) -> None:
    bundle(run, "cached-tokens#1", tmp_path / "b")
    tree = ast.parse((tmp_path / "b" / "replay.py").read_text())
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


@contextmanager
def tiny_server(asked: list[dict[str, object]]) -> Iterator[str]:
    """Answers everything with one word, and keeps what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers["Authorization"], **body})
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 7}}
            said = json.dumps({"choices": [{"text": "other"}], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_both_scripts_send_the_same_requests_in_their_order(run: RunFolder, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    bundle(run, "cached-tokens#1", folder)
    asked: list[dict[str, object]] = []
    environment = {**os.environ, "OPENAI_API_KEY": "sk-test"}
    with tiny_server(asked) as url:
        command = [sys.executable, str(folder / "replay.py"), "--base-url", f"{url}/v1"]
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        subprocess.run(["sh", str(folder / "replay.sh")], env={**environment, "BASE_URL": url}, check=True, timeout=60)
    assert "cached tokens: then 1024, now 7" in shown.stdout and "now 'other'" in shown.stdout
    assert len(asked) == 4 and asked[:2] == asked[2:]
    assert {each["key"] for each in asked} == {"Bearer sk-test"}
    assert "sk-test" not in "".join(path.read_text() for path in folder.rglob("*.*"))
