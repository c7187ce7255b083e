# make demo | make test: each does all its own set-up, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# The tests and the demo need no GPU: without this pip takes a build of several GB. Where that index is out of reach,
# pip takes what it finds elsewhere.
TORCH := $(PIP) install -q --retries 0 --timeout 15 --index-url https://download.pytorch.org/whl/cpu \
  'torch>=2.6,<2.14' >/dev/null 2>&1 || true

.PHONY: demo demo-core test test-all lint bench clean help

help:
	@echo "make demo   run the bundled sample through the pipelines; ends by saying where the pages are"
	@echo "make demo-core  the same without speech and models, whose packages are large"
	@echo "make test   install what the tests need, lint, type-check, test"
	@echo "make test-all  the same, and the tests that take long"
	@echo "make lint   ruff and mypy alone"
	@echo "make bench  the benchmarks' tables (minutes)"
	@echo "make clean  remove .venv and what the demo wrote"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Parapet needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: setup.py | $(BIN)/python
	$(PIP) install -q -e .
	@touch $@

$(VENV)/.demo: setup.py | $(BIN)/python
	$(TORCH)
	$(PIP) install -q -e '.[speech,models]'
	@touch $@ $(VENV)/.core

$(VENV)/.test: setup.py | $(BIN)/python
	$(TORCH)
	$(PIP) install -q -e '.[test,lint]'
	@touch $@ $(VENV)/.demo $(VENV)/.core

demo: $(VENV)/.demo
	$(BIN)/parapet demo --output demo-output

demo-core: $(VENV)/.core
	$(BIN)/parapet demo --core --output demo-output

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Python keeps what it compiled, even where it is told not to: the tests start many processes.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 2 --dist worksteal

test: lint
	$(PYTEST)

test-all: lint
	PARAPET_THOROUGH=1 PARAPET_KILLS=230 $(PYTEST) -m ""

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.compose
	$(BIN)/python -m benchmarks.rewrite
	$(BIN)/python -m benchmarks.translate
	$(BIN)/python -m benchmarks.speech
	$(BIN)/python -m benchmarks.perturb
	$(BIN)/python -m benchmarks.restaurants
	$(BIN)/python -m benchmarks.evaluate
	$(BIN)/python -m benchmarks.mturk

clean:
	rm -rf $(VENV) demo-output bench-output
