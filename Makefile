# make demo | make test: each does all its own set-up, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# uv installs in half a minute what takes pip four; where it cannot be had, or finds less than pip, pip does. An egg-info
# that an older build left here would hide the entry points of this one.
INSTALL = rm -rf *.egg-info; { $(PIP) install -q 'uv>=0.7,<1' && $(BIN)/uv pip install -q --python $(BIN)/python -e '.$(EXTRAS)'; } \
  2>/dev/null || $(PIP) install -q --no-compile -e '.$(EXTRAS)'

# The tests and the demo need no GPU: unasked, both would take a build of several GB. Where that index is out of reach,
# pip looks where its settings say.
TORCH := $(PIP) install -q --no-compile --retries 0 --timeout 15 --index-url https://download.pytorch.org/whl/cpu \
  'torch>=2.6,<2.14' 2>/dev/null || $(PIP) install -q --no-compile 'torch>=2.6,<2.14'

FOLDERS := schemas transforms local_mturk evaluation pipelines crowd_templates
TYPES := build/types/parapet

NO_MKDOCS_2_WARNING := 1
export NO_MKDOCS_2_WARNING

.PHONY: demo demo-core docs test test-all test-machines test-faults fuzz lint style types bench notebooks clean help

help:
	@echo "make demo   run the bundled sample through the pipelines; ends by saying where the pages are"
	@echo "make demo-core  the same without speech and models, whose packages are large"
	@echo "make test   install what the tests need, lint, type-check, test"
	@echo "make test-all  the same, and the tests that take long"
	@echo "make test-machines  the tests that train, as other machines would run them, and pipelines on several machines"
	@echo "make test-faults  commands killed, and their disk failing, at hundreds of operations"
	@echo "make fuzz   mutated input through every reader and pipeline for an hour: make fuzz MINUTES=5 SEED=2"
	@echo "make lint   ruff and mypy alone"
	@echo "make docs   the documentation site: build/site/index.html"
	@echo "make notebooks  execute docs/notebooks and keep the outputs"
	@echo "make bench  the benchmarks' tables (minutes)"
	@echo "make clean  remove .venv and what the demo wrote"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Parapet needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: setup.py | $(BIN)/python
	$(INSTALL)
	@touch $@

$(VENV)/.demo: EXTRAS = [speech,models]
$(VENV)/.demo: setup.py | $(BIN)/python
	$(TORCH)
	$(INSTALL)
	@touch $@ $(VENV)/.core

$(VENV)/.test: EXTRAS = [test,lint,docs]
$(VENV)/.test: setup.py | $(BIN)/python
	$(TORCH)
	$(INSTALL)
	@touch $@ $(VENV)/.demo $(VENV)/.docs $(VENV)/.core

$(VENV)/.docs: EXTRAS = [docs]
$(VENV)/.docs: setup.py | $(BIN)/python
	$(INSTALL)
	@touch $@ $(VENV)/.core

demo: $(VENV)/.demo
	$(BIN)/parapet suite sample --output demo-output

demo-core: $(VENV)/.core
	$(BIN)/parapet suite sample --output demo-output

lint: style types

style: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	rm -rf $(TYPES) && mkdir -p $(TYPES)
	ln -s $(addprefix ../../../,$(wildcard parapet/*.* $(FOLDERS))) $(TYPES)
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict
	@echo "the site: build/site/index.html"

# Python keeps what it compiled, even where it is told not to: the tests start many processes.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 2 --dist worksteal

test: lint
	$(PYTEST)

test-all: lint
	PARAPET_THOROUGH=1 PARAPET_KILLS=230 $(PYTEST) -m ""

test-machines: $(VENV)/.test
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python tests/machines.py
	PYTHONPATH=tests:tests/end_to_end $(BIN)/python -m cluster

test-faults: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m faults

MINUTES ?= 60
SEED ?= 0
fuzz: $(VENV)/.test
	PYTHONPATH=tests:tests/end_to_end $(BIN)/python -m fuzzing --minutes $(MINUTES) --seed $(SEED)

notebooks: $(VENV)/.test
	$(BIN)/python tests/notebooks.py

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo-output bench-output
