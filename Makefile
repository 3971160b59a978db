# `make sweep` and `make test` set up what they need in .venv and run; everything else builds on the same environment.
PYTHON ?= python3
VENV   ?= .venv
# The engine, like a server, uses one BLAS thread: two on a busy machine of two cores are slower than one.
export OPENBLAS_NUM_THREADS ?= 1
BIN    := $(VENV)/bin

.PHONY: sweep test check test-slow clean

sweep: $(VENV)/.ready
	$(BIN)/ling-bench sweep --concurrency 1,8,32

test: $(VENV)/.ready
	$(BIN)/python -m pytest

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Real engines, a browser and minutes-long tests: tests/servers/install.sh brings what they need.
test-slow: $(VENV)/.ready
	bash tests/servers/install.sh
	$(BIN)/python -m pytest -m "llama_server or chromium or slow" --durations=12

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
