# Every target does its own set-up: a .venv with the packages that constraints.txt pins.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# For `make wheel`, beside this machine's compiler, one for the other family of processors if it is installed.
CROSS := $(foreach machine,$(filter-out $(shell uname -m),x86_64 aarch64),$(shell command -v $(machine)-linux-gnu-g++))

# Of `make results`: the folder with multi30k/, trec/ and so on, and lines of benchmarks/claims.yaml (all of them).
DATA ?=
LINES ?=

.PHONY: demo test lint results results-quick wheel clean

demo: $(READY)
	$(BIN)/pellucid demo

# Three at once on two cores: now and then one of them waits.
test: lint
	$(BIN)/python -m pytest -n 3 --dist worksteal

lint: .venv/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

results: .venv/.ready-dev
	$(BIN)/python -m benchmarks.remake $(LINES) $(if $(DATA),--data "$(DATA)")

results-quick: $(READY)
	$(BIN)/python -m benchmarks.remake $(LINES) --quick

wheel: .venv/.ready-dev
	for compiler in "$$CXX" $(CROSS); do \
	  CXX=$$compiler HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BIN)/python -m hatchling build -t wheel || exit; done

clean:
	rm -rf .venv

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

.venv/.ready-dev: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,data,words,serve,interop]'
	touch $@
