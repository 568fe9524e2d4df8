# `make run` and `make test` need Python 3.11 to 3.13 with its headers and g++, nothing else.

PYTHON ?= python3
PY := .venv/bin/python
CONFIG ?= configs/taxi.yaml

# Two wheels of the stack are tagged for glibc 2.39; tools/relabel.py makes them load on older ones.
ifeq ($(shell uname -s)-$(shell uname -m),Linux-x86_64)
PLATFORM := --python-platform x86_64-manylinux_2_39
endif

.PHONY: run test test-fast check format bench env docs golden clean

run: env  ## train, judge and push the model of CONFIG (default: Chicago taxi)
	.venv/bin/headrace run $(CONFIG)

WORKERS ?= auto
test: env  ## run every test, whole files in one process per core; WORKERS=0 uses one process
	$(PY) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# The tests in the other folders train, evaluate, run Beam or whole pipelines.
FAST := tests/benchmarks tests/configs tests/pipeline tests/suite
test-fast: env  ## run the tests of the config, the command line, the compiler and the report, except the slow ones
	$(PY) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow" $(FAST)

check: env  ## formatting, lint, types, and the direction of imports
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: env
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: env  ## compare with stock TFX; CHECK=1 fails if a ratio is below its floor, QUICK=1 measures less
	$(PY) -m benchmarks $(if $(CHECK),--check) $(if $(QUICK),--quick)

docs: env  ## regenerate the config reference from the schema, then build the documentation as a site in site/
	$(PY) tools/config_reference.py
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

golden: env  ## rewrite the golden files of the Kubeflow compiler's tests
	$(PY) tools/golden.py

env: .venv/made  ## create the environment, once

.venv/made: pyproject.toml uv.lock setup.py tools/bootstrap.py tools/relabel.py
	$(PYTHON) tools/bootstrap.py $(if $(filter file,$(origin PYTHON)),--default)
	@echo "creating the environment in .venv, once; this takes a minute or two"
	.venv/bin/uv sync --quiet --frozen --compile-bytecode $(PLATFORM)
	$(PY) tools/relabel.py
	$(PY) -m compileall -q src/headrace src/headrace/*/
	touch $@

clean:  ## remove runs, pushed models and caches; the environment stays
	rm -rf runs serving build site src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
