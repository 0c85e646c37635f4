# `make` alone lists the targets. Everything is installed into .venv; PYTHON chooses the interpreter that makes it.

PYTHON ?= python3
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Tests side by side: most of them wait, for other processes or for time to pass.
AT_ONCE ?= 3

BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.docs-ready

.PHONY: help setup demo check test test-all golden docs wheel bench bench-smoke clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Install AutoDist, TensorFlow (CPU) and Horovod into .venv; quick when nothing changed
	@:

$(READY): pyproject.toml setup.py scripts/install-horovod $(wildcard autodist/transport/native/*)
	@[ -x $(BIN)/pip ] || { scripts/check-python $(PYTHON) && $(PYTHON) -m venv .venv; }
	@echo "setup: installing AutoDist, TensorFlow and the tools into .venv, some minutes once"
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@# An editable install warns, over eight lines, that folders take precedence in imports: that is its purpose.
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -e '.[cpu,dev]'
	@# Keras 2, for its tests: without its dependencies, which name the other of TensorFlow's two wheels.
	@$(BIN)/python -m pip install --quiet --no-deps 'tf-keras==2.21.*'
	@# Horovod is an accelerator, not a need: its script says in one line what its absence means.
	@scripts/install-horovod || true
	@touch $@

demo: setup  ## Train the digits example on two local workers
	@$(BIN)/autodist run examples/digits.py --workers 2

check: setup  ## Lint, formatting and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

test: setup  ## Run the tests, without the slow ones
	@scripts/install-test-tools
	@$(BIN)/python -m pytest -m 'not slow' -n $(AT_ONCE) --dist loadfile --no-loadscope-reorder

test-all: setup  ## Run all tests
	@scripts/install-test-tools
	@$(BIN)/python -m pytest -n $(AT_ONCE) --dist loadfile --no-loadscope-reorder

golden: setup  ## Write the texts of what each pass makes of a small step anew: read the difference
	@AUTODIST_TESTS_WRITE=1 $(BIN)/python -m pytest -q tests/kernels/test_golden.py

docs: $(DOCS_READY)  ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(DOCS_READY): $(READY)
	@$(BIN)/python -m pip install --quiet -e '.[docs]'
	@touch $@

wheel:  ## Build dist/: a wheel that needs no compiler, and the source
	@scripts/make-wheel $(PYTHON)

bench: setup  ## Measure the overheads that benchmarks/README.md describes
	@[ -f benchmarks/run.py ] || { echo "bench: benchmarks/run.py does not exist in this version" >&2; exit 1; }
	@scripts/install-test-tools
	@$(BIN)/python benchmarks/run.py

bench-smoke: setup  ## Compare a few ratios beside Horovod and tf.distribute with the kept ones
	@scripts/install-test-tools
	@$(BIN)/python benchmarks/run.py --only smoke

clean:  ## Remove .venv and all that was built or cached; runs/ stays
	@rm -rf .venv build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
