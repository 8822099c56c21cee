# Everything runs in .venv, which is built from pyproject.toml on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto

.PHONY: help install demo test test-long check format clean
help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stream-osr needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	@echo "Installing stream-osr into $(VENV) (once) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing stream-osr and its development tools into $(VENV) (once) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.core

install: $(VENV)/.dev   ## set up .venv with everything the tests and checks need

demo: $(VENV)/.core   ## run the demonstration on river's ImageSegments
	@$(BIN)/stream-osr demo

test: $(VENV)/.dev   ## run the tests (those marked long excepted)
	$(BIN)/pytest -n $(WORKERS) -m 'not long'

test-long: $(VENV)/.dev   ## run the tests that take minutes
	$(BIN)/pytest -n $(WORKERS) -m long

check: $(VENV)/.dev   ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev   ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:           ## remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
