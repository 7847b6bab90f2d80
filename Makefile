# Every target does its own set-up: a .venv with the packages that constraints.txt pins.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint clean

demo: $(READY)
	$(BIN)/pellucid demo

test: lint
	$(BIN)/python -m pytest -n 2

lint: .venv/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf .venv

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

.venv/.ready-dev: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,data,words]'
	touch $@
