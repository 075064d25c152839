# Needs Python 3.11 or newer, make and git. Each target sets up what it needs.
#   make PYTHON=python3.13 ...   another interpreter for the environment
#   make test-long N=5000        more seeds

PYTHON ?=
N ?= 1000

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.isotone-installed

.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
.PHONY: setup java demo check test test-long bench

setup: $(STAMP) java
	@echo "Ready. Next: make demo, make test, make test-long N=5000, make bench"

# Picks the first Python that is new enough. Debian ships venv without ensurepip unless python3-venv is installed.
$(PY):
	@set -e; \
	fail() { echo "$$1" >&2; exit 1; }; \
	python=; \
	for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    python=$$candidate; break; \
	  fi; \
	done; \
	test -n "$$python" || fail "No Python 3.11 or newer found$(if $(PYTHON), as $(PYTHON)); install one, or name it: make PYTHON=/path/to/python3"; \
	if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing python3-venv"; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; } >/dev/null \
	      || fail "Could not install python3-venv"; \
	  fi; \
	  "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1 \
	    || fail "$$python cannot create environments; install its venv package (Debian: apt-get install python3-venv)"; \
	fi; \
	echo "Creating $(VENV) with $$("$$python" -V)"; \
	"$$python" -m venv $(VENV)

# The build of the package itself is held to the same versions (older pip reads the first variable, newer the second).
$(STAMP): pyproject.toml constraints.txt | $(PY)
	@echo "Installing the packages of constraints.txt"
	@PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	  $(PY) -m pip install -q --use-pep517 --root-user-action=ignore -c constraints.txt -e '.[test,dev,spark]'
	@touch $@

# Java 17 or newer, for Spark.
java:
	@sh tools/java.sh

demo: $(STAMP) java
	@$(PY) -m isotone demo

check: $(STAMP)
	@echo "check: ruff"
	@$(PY) -m ruff check -q .
	@echo "check: mypy"
	@$(PY) -m mypy --no-error-summary src tools $(wildcard benchmarks)
	@echo "check: import direction"
	@$(PY) tools/imports.py

test: check java
	@$(PY) -m pytest -n 2 -m "not long"

# pytest's status 5 says that no test carries the mark.
test-long: $(STAMP)
	@$(PY) -m pytest -n 2 -m long || test $$? -eq 5
	@$(PY) -m isotone.sim.swarm --seeds $(N)

bench: $(STAMP) java
	@$(PY) benchmarks/live.py
	@$(PY) benchmarks/sim.py
	@$(PY) benchmarks/pipeline.py --events 1e6 --processes 5
