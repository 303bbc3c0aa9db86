# One way to do each thing; every target sets up what it needs.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.PHONY: help setup lock controlplane test check generate bench validate demo demo-down

help: ## list the targets
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## make .venv from the lock

$(VENV)/.installed: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.13,<1"
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q planner operator
	@touch $@

lock: ## resolve the dependencies again (hashes, no host names: works behind any mirror)
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --quiet --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra operator --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --quiet --output-file requirements-operator.lock

controlplane: setup ## build etcd, API server, controllers, scheduler, kubectl, helm and kwok once
	@$(BIN)/python hack/build_controlplane.py

test: controlplane ## all tests, the real control plane included
	@$(BIN)/pytest $(PYTEST_ARGS)

check: setup ## lint, types, import contracts, dead code, generated files in sync
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/python hack/generate_crds.py --check
	$(BIN)/python hack/generate_docs.py --check
	$(BIN)/hadolint Dockerfile

generate: setup ## write the CRDs and the tables of the docs
	$(BIN)/python hack/generate_crds.py
	$(BIN)/python hack/generate_docs.py

bench: setup ## timings (pytest-benchmark)
	$(BIN)/pytest benchmarks --benchmark-only $(PYTEST_ARGS)

validate: setup ## judge the predictions on measured data: validation/REPORT.md and MEMORY.md
	$(BIN)/python validation/report.py
	$(BIN)/python validation/memory.py

demo: controlplane ## the whole story on a real control plane; leaves it running
	@$(BIN)/python hack/demo.py up

demo-down: setup ## end the demo
	@$(BIN)/python hack/demo.py down
