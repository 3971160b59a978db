"""The clients that are compared: how each is called for the same load, and where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

TOKENS = 128
PROMPT_TOKENS = 128
MODEL = "mock-model"
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One run of one client. folder: what it writes. times: it is to keep the times of each token, where it can."""

    port: int
    concurrency: int
    requests: int
    folder: Path
    tokenizer: Path
    floor: Path
    times: bool

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKind:
    """program: what must exist for the client to run. times_cost: keeping token times is an export of its own that
    the client is not charged for; elsewhere they are kept in every run."""

    version: str
    program: Callable[[], Path]
    command: Callable[[Path, Load], list[str]]
    environment: Mapping[str, str]
    times_cost: bool = False


def cache() -> Path:
    """Where `install.sh` puts the clients."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ling-bench"
    return Path(os.environ.get("LING_BENCH_CACHE", base))


def _ours(python: Path, load: Load) -> list[str]:
    return [
        *(str(python), "-m", "harness.cli.main", "sweep", "--base-url", load.url, "--model", MODEL),
        *("--endpoint-type", "completions", "--dataset-name", "random", "--ignore-eos", "--num-warmups", "0"),
        *("--input-len", str(PROMPT_TOKENS), "--output-len", str(TOKENS)),
        *("--concurrency", str(load.concurrency), "--num-prompts", str(load.requests)),
        *("--result-dir", str(load.folder / "results"), "--report-dir", str(load.folder / "reports")),
    ]


def _floor(program: Path, load: Load) -> list[str]:
    numbers = (load.concurrency, load.requests, TOKENS, PROMPT_TOKENS)
    times = [str(load.folder / "times.jsonl")] if load.times else []
    return [str(load.floor), str(load.port), "/v1/completions", *map(str, numbers), *times]


def _vllm(program: Path, load: Load) -> list[str]:
    return [
        *(str(program), "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai"),
        *("--base-url", load.url, "--endpoint", "/v1/completions", "--model", MODEL, "--disable-tqdm"),
        *("--tokenizer", str(load.tokenizer), "--dataset-name", "random", "--ignore-eos", "--num-warmups", "0"),
        *("--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(TOKENS)),
        *("--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency)),
        *("--ready-check-timeout-sec", "0", "--save-result", "--save-detailed"),
        *("--result-filename", str(load.folder / "result.json")),
    ]


def _sglang(module: str) -> Callable[[Path, Load], list[str]]:
    def command(program: Path, load: Load) -> list[str]:
        return [
            *(str(program), "-m", module, "--backend", "vllm", "--base-url", load.url, "--model", MODEL),
            *("--tokenizer", str(load.tokenizer), "--dataset-name", "random-ids", "--random-range-ratio", "1"),
            *("--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(TOKENS)),
            *("--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency)),
            *("--warmup-requests", "0", "--disable-tqdm", "--output-details"),
            *("--output-file", str(load.folder / "result.json")),
        ]

    return command


def _guidellm(program: Path, load: Load) -> list[str]:
    return [
        *(str(program.with_name("guidellm")), "run", "--disable-console", "--backend"),
        f"kind=openai_http,target={load.url},model={MODEL},request_format=/v1/completions",
        *("--profile", f"kind=concurrent,streams={load.concurrency}"),
        *("--constraint", f"kind=max_requests,count={load.requests}"),
        *("--tokenizer", f"kind=hf_auto,model={load.tokenizer}"),
        *("--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={TOKENS}"),
        *("--output", f"kind=json,path={load.folder / 'result.json'}"),
    ]


def _aiperf(program: Path, load: Load) -> list[str]:
    return [
        *(str(program.with_name("aiperf")), "profile", "--model", MODEL, "--url", load.url, "--streaming"),
        *("--endpoint-type", "completions", "--tokenizer", str(load.tokenizer), "--ui", "none"),
        *("--concurrency", str(load.concurrency), "--request-count", str(load.requests)),
        *("--isl", str(PROMPT_TOKENS), "--isl-stddev", "0", "--osl", str(TOKENS)),
        *("--no-server-metrics", "--no-gpu-telemetry", "--artifact-dir", str(load.folder / "artifacts")),
        *("--export-level", "raw" if load.times else "records"),
    ]


def _python_of(name: str) -> Callable[[], Path]:
    return lambda: cache() / "peers" / name / "bin" / "python"


def _our_version() -> str:
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True)
    return said.stdout.strip() or "not in git"


OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
CLIENTS: dict[str, ClientKind] = {
    "ling-bench": ClientKind(
        version=_our_version(),
        program=lambda: Path(sys.executable),
        command=_ours,
        environment={"PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"},
    ),
    "C floor": ClientKind(version="-", program=lambda: Path("/bin/sh"), command=_floor, environment={}),
    "vLLM bench serve": ClientKind(
        version="0.32.0", program=_python_of("vllm-0.32.0"), command=_vllm, environment=OFFLINE | QUIET
    ),
    "SGLang": ClientKind(
        version="0.5.23",
        program=_python_of("sglang-0.5.23"),
        command=_sglang("sglang.benchmark.serving"),
        environment=OFFLINE,
    ),
    "SGLang Rust": ClientKind(
        version="0.5.23",
        program=_python_of("sglang-0.5.23"),
        command=_sglang("sglang.benchmark.rust_client"),
        environment=OFFLINE,
    ),
    "GuideLLM": ClientKind(
        version="0.8.1", program=_python_of("guidellm-0.8.1"), command=_guidellm, environment=OFFLINE
    ),
    # Its offline mode refuses a tokenizer in a local folder.
    "AIPerf": ClientKind(
        version="0.13.0", program=_python_of("aiperf-0.13.0"), command=_aiperf, environment={}, times_cost=True
    ),
}
