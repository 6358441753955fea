# `make` lists what there is. Every target sets up what it needs.
.DEFAULT_GOAL := help
PY := .venv/bin/python
UNIT_TESTS := tests/unit tests/parity tests/properties $(filter-out %/test_examples_run.py,$(wildcard tests/test_*.py))

# Tests start programs hundreds of times, and every worker loads every test: with bytecode kept, that takes a third less.
unexport PYTHONDONTWRITEBYTECODE
# What a person's shell has set for other purposes: where `cd` looks, where other Pythons look, how grep answers.
unexport CDPATH PYTHONHOME PYTHONPATH GREP_OPTIONS BASH_ENV ENV

.PHONY: help setup test test-unit test-times test-all truth soak check fix package manifests try-install proto demo fuzz properties perf reports pictures screenshots reference docs ci

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup:  ## make .venv with everything the lock file pins
	@scripts/setup-venv requirements-dev.lock

test-unit: setup  ## what starts no process of its own (a minute on two cores)
	$(PY) -m pytest -n 2 -m "not slow and not process" $(UNIT_TESTS)

test: setup  ## the fast suite (a few minutes on two cores; more workers use what the others wait for, and take from their queues)
	$(PY) -m pytest -n 6 --dist worksteal -m "not slow"

test-all: setup  ## the slow ones as well, and every example of the properties
	TONNAGE_ALL_EXAMPLES=1 $(PY) -m pytest -n 2

MINUTES ?= 60
RESTARTS ?= 2

soak: setup  ## a cluster under load, faults and restarts for MINUTES=60 (RESTARTS=0: none); prints what it used
	SOAK_MINUTES=$(MINUTES) SOAK_RESTARTS=$(RESTARTS) $(PY) -m pytest -s tests/e2e/test_soak.py

N ?= 20
FROM ?= 0

truth: setup  ## what fit says against what then runs, on N=20 random clusters (FROM=0: the first seed)
	TRUTH_N=$(N) TRUTH_FROM=$(FROM) $(PY) -m pytest -v tests/truth

test-times: setup  ## the fast suite with its twenty slowest tests
	$(PY) -m pytest -n 6 --dist worksteal -m "not slow" --durations=20 --durations-min=1

check: setup  ## format, lint, types, layers
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy --num-workers 2
	$(PY) -m pytest -q tests/test_layers.py

fix: setup  ## apply what can be applied
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

package: setup  ## build wheel, sdist and the single file tonnage.pyz (with its bill of materials) into dist/
	rm -rf dist
	$(PY) -m build --no-isolation --outdir dist .
	$(PY) scripts/build-pyz dist/tonnage-*.whl --output dist/tonnage.pyz

manifests: setup  ## write the copies of roles, monitoring and version that deploy/ holds
	$(PY) scripts/write-manifests

try-install: setup  ## from an empty API server (KUBEBUILDER_ASSETS) to Tonnage from the chart, a placed pod, and back
	$(PY) deploy/try/from-nothing-to-a-pod

proto: setup  ## write the CSI stubs from csi.proto
	cd src && ../$(PY) -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. tonnage/csi/csi.proto

demo:  ## play the stories on a fresh embedded cluster
	./tonnage demo

fuzz: MINUTES = 10
fuzz: setup  ## random inputs to every decoder for MINUTES=10; what breaks one is kept in tests/fuzz/corpus
	$(PY) tests/fuzz/fuzz_run.py --minutes $(MINUTES)

properties: MINUTES = 10
properties: setup  ## the property tests with random examples for MINUTES=10; a failure tells the seed that repeats it
	$(PY) scripts/run-properties --minutes $(MINUTES)

perf: setup  ## measure everything that has a budget; prints goal, figure and verdict at the end (ten minutes and more)
	$(PY) perf/run.py

reports: setup  ## write report.html beside the examples, as their commands answer now
	$(PY) scripts/write-reports

pictures: setup  ## draw docs/pictures/
	$(PY) scripts/draw-pictures

screenshots: setup  ## take the dashboard's pictures of docs/pictures/ of a running cluster (needs chromium and kubectl)
	TONNAGE_PICTURES=docs/pictures $(PY) -m pytest tests/dashboard/test_pictures.py

reference: setup  ## write docs/reference/ from the code: pages and JSON schemas
	$(PY) scripts/write-reference

docs: setup  ## build the documentation site into site/; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "site/index.html; to search it as well: $(PY) -m http.server --bind 127.0.0.1 --directory site 8000"

ci: check test  ## what the pipeline runs
