# `make demo` and `make test` work from a bare clone: each sets up .venv first, once.
PYTHON ?= python3
BIN := .venv/bin
# Idle OpenMP threads that spin make torch ten times slower when another program holds a core.
export OMP_WAIT_POLICY ?= passive
# The profiler of torch, by which memory is measured, says whenever it starts and stops.
export KINETO_LOG_LEVEL ?= 99

.PHONY: help setup demo compare reproduce test test-slow test-gpu lint types layers bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .venv/ready  ## make .venv with everything in it

INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable

.venv/bin/python:
	$(PYTHON) -m venv .venv

# The demo needs less than the tests do, and should not wait for the rest.
.venv/usable: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) '.[train,review]'
	touch $@

.venv/ready: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) '.[dev]'
	touch .venv/usable $@

demo: .venv/usable  ## audit handwritten digits of which 20% were given a wrong label
	rm -rf demo-output/audit
	$(BIN)/abstain audit mnist-5k --flip 0.2 --out demo-output/audit
	@echo "Go through its labels in the browser: $(BIN)/abstain review demo-output/audit"

compare: setup  ## train by cross-entropy and by abstain on labels of which 40% are wrong
	$(BIN)/python examples/digits.py

reproduce: setup  ## the paper: TARGET=table-symmetric, or another of reproduction/README.md
	$(BIN)/python -m reproduction $(TARGET) $(OPTIONS)

test: setup lint types layers  ## everything CI checks
	$(BIN)/pytest -n auto --maxprocesses 4

test-slow: setup  ## the long tests too
	$(BIN)/pytest -m ''

test-gpu: setup  ## what needs a GPU, which no other test sees
	$(BIN)/pytest -m gpu -p no:hypothesispytest -rs -n auto --maxprocesses 4

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

bench: setup  ## measure what docs/losses.md claims about cost
	$(BIN)/python bench/loss.py
	$(BIN)/python bench/epoch.py
	$(BIN)/python bench/review.py

clean:  ## remove the environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build
