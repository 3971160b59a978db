"""`ling-bench memory --base-url` against a small server that answers with recorded pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from click.testing import CliRunner, Result

from harness.cli.exits import Exit
from harness.cli.main import ling_bench
from tests.memory.samples import TINY_BAILING, TINY_QWEN_NEXT

FIXTURES = Path(__file__).parent.parent / "fixtures" / "memory"


def models_page(owner: str) -> str:
    return json.dumps({"data": [{"id": "tiny", "owned_by": owner, "max_model_len": 8192}]})


@contextmanager
def server(pages: Mapping[str, str]) -> Iterator[str]:
    """The address of a server that knows these pages; 404 for every other."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.end_headers()
            self.wfile.write((page or "").encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()


def run(config: Mapping[str, object], folder: Path, url: str, *more: str) -> Result:
    (folder / "config.json").write_text(json.dumps(config))
    return CliRunner().invoke(ling_bench, ["memory", str(folder), "--base-url", url, *more])


def test_a_vllm_servers_figures_stand_beside_the_computed_ones(tmp_path: Path) -> None:
    pages = {"/v1/models": models_page("vllm"), "/metrics": (FIXTURES / "vllm-qwen3next.txt").read_text()}
    with server(pages) as url:
        result = run(TINY_QWEN_NEXT, tmp_path, url, "--json")
    assert result.exit_code == Exit.PASS, result.output
    measured = json.loads(result.output)["measured"]
    assert measured["engine"] == "vllm"
    assert measured["state_dtypes_implied"] == ["fp32"]
    capacity = next(figure for figure in measured["figures"] if figure["what"] == "capacity, tokens")
    assert capacity["reported"] == 706_236
    assert abs(capacity["computed"] / capacity["reported"] - 1) < 0.001


def test_the_table_says_which_state_type_explains_the_block(tmp_path: Path) -> None:
    pages = {"/v1/models": models_page("vllm"), "/metrics": (FIXTURES / "vllm-bailing3-mtp2.txt").read_text()}
    with server(pages) as url:
        output = run(TINY_BAILING, tmp_path, url, "--num-speculative-tokens", "2").output
    assert "212,992" in output
    assert "state type, by the server: float32" in output
    assert "state type that explains the block: fp32" in output


def test_an_sglang_servers_pool_is_weighed(tmp_path: Path) -> None:
    info = {"tp_size": 1, "max_total_num_tokens": 1_000, "internal_states": []}
    pages = {
        "/v1/models": models_page("sglang"),
        "/metrics": 'sglang:mamba_available_tokens{tp_rank="0"} 7\n',
        "/server_info": json.dumps(info),
    }
    with server(pages) as url:
        result = run(TINY_BAILING, tmp_path, url, "--json")
    figures = {each["what"]: each for each in json.loads(result.output)["measured"]["figures"]}
    assert figures["capacity, tokens"]["reported"] == 1_000
    assert figures["state slots"]["reported"] == 7


def test_a_server_without_cache_figures_is_said(tmp_path: Path) -> None:
    with server({"/v1/models": models_page("somebody")}) as url:
        result = run(TINY_BAILING, tmp_path, url)
    assert result.exit_code == Exit.UNSOUND
    assert "does not say what its cache holds" in result.output


def test_a_model_that_does_not_split_over_the_servers_ranks_is_said(tmp_path: Path) -> None:
    pages = {"/v1/models": models_page("sglang"), "/server_info": json.dumps({"tp_size": 8, "internal_states": []})}
    with server(pages) as url:
        result = run(TINY_BAILING, tmp_path, url)
    assert result.exit_code == Exit.USAGE
    assert "does not split over the server's 8 ranks" in result.output


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    result = run(TINY_BAILING, tmp_path, "http://127.0.0.1:9")
    assert result.exit_code == Exit.UNSOUND
    assert "cannot be asked" in result.output
