# make demo | make test: each does all its own set-up, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# What is installed is locked, with hashes: requirements/.
INSTALL = requirements/install.sh $(VENV)
LOCKS := $(wildcard requirements/*.txt)

NO_MKDOCS_2_WARNING := 1
export NO_MKDOCS_2_WARNING

.PHONY: demo demo-core docs test pytest test-all test-machines record fuzz lint style types bench notebooks lock audit sbom clean help

help:
	@echo "make demo   run the bundled sample through the pipelines; ends by saying where the pages are"
	@echo "make demo-core  the same without speech and models, whose packages are large"
	@echo "make test   install what the tests need, lint, type-check, test"
	@echo "make test-all  the same, and the tests that take long"
	@echo "make test-machines  the tests that train, as other machines would run them"
	@echo "make record  write down what each command makes of the sample, after a change that is meant"
	@echo "make fuzz   damaged inputs of every command for an hour: make fuzz MINUTES=5 SEED=2"
	@echo "make lint   ruff and mypy alone"
	@echo "make docs   the documentation site: build/site/index.html"
	@echo "make notebooks  execute docs/notebooks and keep the outputs"
	@echo "make bench  the benchmarks' tables (minutes)"
	@echo "make lock   renew the versions and hashes in requirements/ from the ranges of setup.py"
	@echo "make audit  look for known vulnerabilities in what is locked (asks the network)"
	@echo "make sbom   the bill of materials of what is locked: build/sbom.cdx.json"
	@echo "make clean  remove .venv and what the demo wrote"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Parapet needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: setup.py $(LOCKS) | $(BIN)/python
	$(INSTALL) core
	@touch $@

$(VENV)/.demo: setup.py $(LOCKS) | $(BIN)/python
	$(INSTALL) demo '[speech,models,translate]'
	@touch $@ $(VENV)/.core

$(VENV)/.test: setup.py $(LOCKS) | $(BIN)/python
	$(INSTALL) test '[test,lint,docs]'
	@touch $@ $(VENV)/.demo $(VENV)/.core

demo: $(VENV)/.demo
	$(BIN)/parapet suite sample --output demo-output

demo-core: $(VENV)/.core
	$(BIN)/parapet suite sample --output demo-output

lint: style types

style: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.test
	$(BIN)/mkdocs build --strict
	@echo "the site: build/site/index.html"

# Python keeps what it compiled, even where it is told not to: the tests start many processes.
# Three keep two cores busy: with more cores, make test WORKERS=8.
WORKERS ?= 3
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test: style
	@$(MAKE) --no-print-directory -j 2 types pytest

pytest: $(VENV)/.test
	$(PYTEST)

test-all: lint
	PARAPET_THOROUGH=1 PARAPET_KILLS=230 $(PYTEST) -m ""

test-machines: $(VENV)/.test
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python tests/machines.py

record: $(VENV)/.test
	PARAPET_RECORD=1 $(PYTEST) tests/test_laws.py -k on_record

MINUTES ?= 60
SEED ?= 0
fuzz: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m fuzzing --minutes $(MINUTES) --seed $(SEED)

notebooks: $(VENV)/.test
	$(BIN)/python tests/notebooks.py

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

lock: $(VENV)/.core
	$(BIN)/python requirements/lock.py

# pip-audit asks the Python Packaging Advisory Database: it needs the network.
audit: $(VENV)/.core
	$(BIN)/uv tool run --from 'pip-audit>=2.9,<3' pip-audit --strict --disable-pip --require-hashes \
	  -r requirements/test.txt -r requirements/gcp.txt

sbom: build/sbom.cdx.json

build/sbom.cdx.json: $(VENV)/.core setup.py requirements/sbom.py
	@mkdir -p build
	$(BIN)/uv run --no-project --with 'cyclonedx-bom>=7,<8' python requirements/sbom.py requirements/test.txt $@

clean:
	rm -rf $(VENV) demo-output bench-output
