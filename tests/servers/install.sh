#!/usr/bin/env bash
# Bring what the marked tests need: llama-server (cached outside the repository) and headless Chromium.
set -euo pipefail
here=$(dirname "$0")
bash "$here/build_llama_server.sh"
if ! command -v chromium >/dev/null 2>&1; then
  if [ "$(id -u)" -ne 0 ]; then echo "chromium is missing; install Debian's package chromium" >&2; exit 1; fi
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
chromium --version
