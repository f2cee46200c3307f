# Everything a fresh machine with Python 3.11+, Java 17+ and make needs: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# How long `make soak` goes on.
MINUTES ?= 10
# How much `make bench` measures (quick: ten minutes, full: half an hour), and which parts, by default all.
SCALE ?= full
BENCH ?=

.PHONY: demo test test-all bench chaos soak lint venv prerequisites clean
.DEFAULT_GOAL := test

prerequisites:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "error: Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing). Set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "error: this Python cannot make environments; install its venv package (Debian: python3-venv)" >&2; exit 1; }
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
	  test "$${version:-0}" -ge 17 || \
	  { echo "error: Java 17 or newer is needed; found $${version:-none}. Install a JDK or set JAVA_HOME" >&2; exit 1; }

venv: $(VENV)/.installed

# Spark looks for pyspark_* modules along sys.path; setuptools' default editable mode would hide them there.
$(VENV)/.installed: pyproject.toml setup.py | prerequisites
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --config-settings editable_mode=compat
	@touch $@

demo: venv
	$(BIN)/ordered-kafka demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# schemathesis gives all operations one name, and of that two processes would run one.
test: lint
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile --ignore=tests/integration/test_openapi.py
	$(BIN)/python -m pytest tests/integration/test_openapi.py

test-all: lint
	THOROUGH=1 $(BIN)/python -m pytest -n 2 --dist loadfile --ignore=tests/integration/test_openapi.py
	$(BIN)/python -m pytest tests/integration/test_openapi.py

# Where kafkarrow cannot be had, its row says so.
bench: venv
	-$(BIN)/python -m pip install --quiet --editable '.[bench]' --config-settings editable_mode=compat
	$(BIN)/python -m benchmarks run --scale $(SCALE) $(BENCH)

chaos: venv
	CHAOS_SEEDS=30 $(BIN)/python -m pytest tests/chaos

soak: venv
	$(BIN)/python -m tests.chaos.soak --minutes $(MINUTES)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
