# Everything a developer runs. On a fresh machine git, make and Python 3.11 are enough.
#
#   make demo TORCH_ARGS="--index-url URL"   takes torch from another index, such as one of CPU builds
#   make test PYTEST_ARGS="-k pooling -x"    passes arguments on to pytest

PYTHON ?= python3.11
TORCH ?= 2.13.0
TORCH_ARGS ?=
PYTEST_ARGS ?=
DEMO_OUT ?= guarddiff-demo
WORKERS ?= 2

VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed-torch-$(TORCH)
READY := $(VENV)/.ready-torch-$(TORCH)

# The second environment: a newer torch, and the packages of models that people really export.
VENV_214 ?= .venv-214
PY_214 := $(VENV_214)/bin/python
STAMP_214 := $(VENV_214)/.installed
PACKAGES_214 := torch==2.14.1 torchvision==0.29.1 timm transformers
# What meets torch itself: its private names, exports, and runs at other sizes.
CORE_TESTS := tests/torch_bridge tests/test_api.py tests/test_apart.py tests/test_bytes.py \
	tests/replay/test_prove.py tests/replay/test_search.py tests/replay/test_run.py

OMP_NUM_THREADS ?= 2
export OMP_NUM_THREADS

.DEFAULT_GOAL := help
.PHONY: help setup demo test coverage test-214 core-214 core-tests lint types bench bench-214 pictures clean

help:
	@echo "make demo       run the main job on three small models and print warnings and report paths"
	@echo "make test       all tests (make coverage: with the lines that they reach)"
	@echo "make lint       ruff"
	@echo "make types      mypy --strict"
	@echo "make bench      every benchmark (bench-214: in the second environment)"
	@echo "make test-214   the tests that need torch 2.14.1, torchvision, timm and transformers"
	@echo "make core-214   the tests of exports, runs and torch's private names there"
	@echo "make pictures   draw the pictures of the documentation (needs chromium)"
	@echo "make clean      remove environments, caches and the demo's folder"

setup: $(STAMP)

# What users install; the tools of developers come on top.
$(READY): pyproject.toml Makefile
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: set PYTHON=..., as in 'make $(MAKECMDGOALS) PYTHON=python3.12'" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --disable-pip-version-check $(TORCH_ARGS) torch==$(TORCH)
	$(PY) -m pip install --disable-pip-version-check -e ".[runtime]"
	@rm -f $(VENV)/.installed-* $(VENV)/.ready-*
	@touch $@

$(STAMP): $(READY)
	$(PY) -m pip install --disable-pip-version-check -e ".[test,lint]"
	@touch $@

$(STAMP_214): pyproject.toml Makefile
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV_214)
	$(PY_214) -m pip install --disable-pip-version-check $(TORCH_ARGS) $(PACKAGES_214)
	$(PY_214) -m pip install --disable-pip-version-check -e ".[test]"
	@touch $@

demo: $(READY)
	$(PY) -m guarddiff.demo --out $(DEMO_OUT)

test: $(STAMP)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

# Needs half as much processor time again.
coverage: $(STAMP)
	$(MAKE) test PYTEST_ARGS="--cov --cov-report=term $(PYTEST_ARGS)"

test-214: $(STAMP_214)
	$(PY_214) -m pytest -m torch214 $(PYTEST_ARGS)

core-tests:
	@echo $(CORE_TESTS)

core-214: $(STAMP_214)
	OMP_NUM_THREADS=1 $(PY_214) -m pytest -n $(WORKERS) --dist loadfile $(CORE_TESTS) $(PYTEST_ARGS)

lint: $(STAMP)
	$(PY) -m ruff check .

types: $(STAMP)
	$(PY) -m mypy

bench: $(STAMP)
	$(PY) tests/benchmarks/everything.py

bench-214: $(STAMP_214)
	$(PY_214) tests/benchmarks/everything.py

pictures: $(STAMP)
	$(PY) docs/make_pictures.py

clean:
	rm -rf .venv .venv-214 build dist guarddiff-demo
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov
