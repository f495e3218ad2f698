# Two commands are enough: `make demo` and `make test`. Each sets up .venv when it is missing or out of date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
ALL_STAMP := $(VENV)/.installed-all
# One thread each: two BLAS threads on a busy machine are slower than one, and results should not depend on them.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
# Keep bytecode, whatever the shell says: without it every worker rewrites all tests again, and every process that a
# test starts compiles the package again, a minute and a half in all.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all bench lint docs format clean

help:
	@echo "make demo      set up and run the best end-to-end job, offline"
	@echo "make test      set up, lint, and run the default test suite"
	@echo "make test-all  also the slow tests"
	@echo "make bench     speed and memory, as ratios measured in one run"
	@echo "make lint      ruff, mypy and the import rules"
	@echo "make docs      build the documentation with warnings as errors"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable ".[models,train,dev]"
	@touch $@

$(DOCS_STAMP): pyproject.toml constraints.txt $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt --editable ".[docs]"
	@touch $@

# The slow tests also want Ray and the COCO caption scorers, which the default suite does not need.
$(ALL_STAMP): pyproject.toml constraints.txt $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt --editable ".[ray,java-metrics]"
	@touch $@

demo: $(STAMP)
	@$(BIN)/equipoise demo

test: lint
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile

test-all: $(ALL_STAMP) lint
	EQUIPOISE_RANDOM=1 $(BIN)/python -m pytest -n 2 --dist worksteal

bench: $(STAMP)
	$(BIN)/python -m benchmarks

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(DOCS_STAMP)
	$(BIN)/mkdocs build --strict

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
