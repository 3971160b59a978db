#!/usr/bin/env bash
# Install the clients of other load generators, each in an environment of its own outside the repository.
# Not part of CI: 9 GB. Only what a client imports: vLLM for the CPU, SGLang without the kernels of its engine, which
# still takes a torch built for CUDA (6 GB; no GPU needed).
set -euo pipefail
cache=${LING_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ling-bench}
peers=$cache/peers
repository=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$peers"

environment() {  # NAME: makes it unless it is complete; fails if there is nothing to do
  if [ -e "$peers/$1/.ready" ]; then return 1; fi
  "${PYTHON:-python3}" -m venv "$peers/$1"
}
add() { local name=$1; shift; "$peers/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

if environment aiperf-0.13.0; then
  add aiperf-0.13.0 aiperf==0.13.0
  touch "$peers/aiperf-0.13.0/.ready"
fi
if environment guidellm-0.8.1; then
  add guidellm-0.8.1 torch==2.13.0 guidellm==0.8.1
  touch "$peers/guidellm-0.8.1/.ready"
fi
if environment sglang-0.5.23; then
  add sglang-0.5.23 --no-deps sglang==0.5.23
  add sglang-0.5.23 torch==2.14.1 torchvision==0.29.1 transformers==5.19.0 tokenizers==0.23.2 openai==2.8.0 \
    apache-tvm-ffi==0.1.11 IPython aiohttp datasets einops fastapi gguf interegular loguru msgspec ninja numpy \
    nvidia-ml-py orjson packaging partial_json_parser pillow prometheus-client psutil pybase64 pydantic \
    python-multipart pyzmq regex requests sentencepiece setproctitle tqdm uvicorn uvloop xxhash zstandard
  add sglang-0.5.23 --no-deps compressed-tensors==0.18.0
  touch "$peers/sglang-0.5.23/.ready"
fi
if environment vllm-0.32.0; then
  # vLLM itself is the one the tests use.
  python=$(bash "$repository/tests/servers/install_vllm.sh")
  "$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' \
    > "$("$peers/vllm-0.32.0/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/vllm.pth"
  touch "$peers/vllm-0.32.0/.ready"
fi
du -sh "$peers"/*
