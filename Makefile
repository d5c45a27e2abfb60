.PHONY: help install check test runtimes lint tree types imports operators report site

PYTHON ?= .venv/bin/python

help:  ## List the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

install:  ## Create .venv and install for development
	python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]'

check: lint types imports test  ## Everything that has to be green; with ROOM=emit the quick tests of that room alone

lint:  ## Style and format
	$(PYTHON) -m ruff check . && $(PYTHON) -m ruff format --check .

tree:  # The package as it is installed, in one folder: type checkers and import linters know no package-dir
	rm -rf build/tree && mkdir -p build/tree && cp -Rp layoutsolve build/tree/
	cp -Rp solver frontend emit build/tree/layoutsolve/

types: tree  ## Strict type checking
	cd build/tree && $(abspath $(PYTHON)) -m mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache

imports: tree  ## The direction of imports between rooms
	cd build/tree && $(abspath $(dir $(PYTHON)))/lint-imports ../../pyproject.toml

MEMBERS ?= 2

test:  ## All tests, or with ROOM=emit those of one room, two of each family
	$(PYTHON) -m pytest -n auto $(ROOM:%=--members $(MEMBERS) tests/%)

RUNTIMES = tests/conformance tests/emit tests/verification tests/measurement

runtimes:  ## What depends on ONNX Runtime and LiteRT, with the oldest ones that are supported and the newest
	python3 -m venv .venv-oldest && .venv-oldest/bin/pip install -q -c tests/oldest_runtimes.txt -e '.[dev]'
	python3 -m venv .venv-newest && .venv-newest/bin/pip install -q -U onnxruntime ai-edge-litert -e '.[dev]'
	.venv-oldest/bin/python -m pytest -n auto $(RUNTIMES)
	.venv-newest/bin/python -m pytest -n auto $(RUNTIMES)

operators:  ## Write docs/operators.md anew
	$(PYTHON) -m tests.operators

report:  ## Compare all strategies, engines and tools over models that it makes; report/REPORT.md
	$(PYTHON) -m experiments.report report

site:  ## Build the documentation into site/
	$(PYTHON) -m mkdocs build --strict
