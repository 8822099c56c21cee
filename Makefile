# Everything runs in .venv, which is built from pyproject.toml on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# one more than there are cores: the tests with a broker wait more than they work
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
JOBS ?= 1
# hundreds of processes import the same sources
unexport PYTHONDONTWRITEBYTECODE
# modules are translated when they are imported: most never are
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
ACCURACY := $(BIN)/python -m benchmarks.openset --jobs $(JOBS) --json benchmarks/results/results.jsonl

.PHONY: help install try-clone browser faketime prometheus systemd broker demo warmup pyspark spark cases test test-all test-long faults mutations check golden golden-compare lint accuracy speed pictures package lowest newest image-check wheel format clean site prose site-serve
help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stream-osr needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --upgrade pip  # what comes with Python may be years old, and takes twice as long

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	@echo "Installing stream-osr into $(VENV) (once) ..."
	@$(INSTALL) -e '.[plot,live]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing stream-osr and its development tools into $(VENV) (once) ..."
	@$(INSTALL) -e '.[dev]'
	@$(INSTALL) --no-deps streamndr  # rivals; what it asks for is for others
	@touch $@ $(VENV)/.core

install: $(VENV)/.dev   ## set up .venv with everything the tests and checks need

try-clone:  ## run the README's two commands in a bare clone of this commit, with an empty home folder (ten minutes)
	tools/try_clone

browser:   ## install the browser that the tests of the report look at it with (Debian, as root)
	@if [ -n "$$CHROMIUM" ] || command -v chromium >/dev/null; then exit 0; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	else echo "no chromium: install it, or set CHROMIUM to one; the tests that need it are skipped"; fi

faketime:  ## install what sets the clock of a service back in its tests (Debian, as root)
	@if ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1; then exit 0; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libfaketime; \
	else echo "no libfaketime: the test that needs it is skipped"; fi

prometheus: ## install what the tests ask the metrics and fire the alerts of the service with (Debian, as root)
	@if command -v promtool >/dev/null && command -v prometheus-alertmanager >/dev/null; then exit 0; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus prometheus-alertmanager; \
	else echo "no prometheus: the tests that need it are skipped"; fi

systemd:   ## install what the tests of the unit of the service run it with (Debian, as root)
	@if command -v systemctl >/dev/null && command -v systemd-analyze >/dev/null; then exit 0; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd; \
	else echo "no systemd: the tests that need it are skipped"; fi

JARS := .pytest_cache/d/kafka-jars
broker:    ## collect what the tests start brokers from, if there are Java and Maven; the first broker does so otherwise
	@if command -v java >/dev/null && command -v mvn >/dev/null; then \
		work=$$(mktemp -d) && WORK=$$work LIBS=$(CURDIR)/$(JARS)/libs PORT=29092 tests/kafka/broker/broker.sh ready; rm -rf "$$work"; \
	fi

demo: $(VENV)/.core   ## run the demonstration on river's ImageSegments
	@$(BIN)/stream-osr demo

warmup: $(VENV)/.core   ## compile the sampler, once for these sources
	@$(BIN)/stream-osr warmup

# the compiler takes one core, and pip another
$(VENV)/.ready: $(VENV)/.core
	@$(BIN)/stream-osr warmup & compiling=$$!; $(MAKE) --no-print-directory install && wait $$compiling
	@touch $@

$(VENV)/.pyspark: constraints.txt | $(VENV)/.dev
	@echo "Installing pyspark into $(VENV) (once, 430 MB) ..."
	@$(INSTALL) -c constraints.txt --use-pep517 --config-settings=--build-option=--compression=stored pyspark protobuf
	@touch $@

pyspark: $(VENV)/.pyspark   ## install what the tests of Spark need

# without the real job: SPARK='not long'
SPARK ?=
spark: $(VENV)/.pyspark   ## run the tests of Spark, with a real job that is killed (Java 17)
	$(BIN)/pytest -n 0 -m '$(SPARK)' tests/spark

cases: $(VENV)/.dev   ## run the scripts of ../shared/cases (STREAM_OSR_CASES); CASES_CHAINS=4: with the default number of chains
	$(BIN)/pytest -n 0 tests/habits/test_cases.py

PARALLEL := $(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
test: $(VENV)/.ready   ## run the tests of the first tier: all that needs Python packages alone (minutes)
	@$(BIN)/stream-osr warmup
	$(PARALLEL) --tier first --durations 10 --durations-min 5

TIER ?= all
test-all: $(VENV)/.ready   ## run both tiers: also what needs a broker, a browser, data, many values or seeds (half an hour)
	@$(BIN)/stream-osr warmup
	$(PARALLEL) --tier $(TIER) --durations 40 --durations-min 5 -m 'not long'

test-long: $(VENV)/.dev   ## run the tests that take minutes each
	$(PARALLEL) --timeout 3600 -m long

faults: $(VENV)/.dev   ## every fault of docs/kafka_reference.md, the long cases too, with the state in a folder, in a topic and below a URL (an hour)
	$(BIN)/pytest -n 0 --timeout 3600 tests/kafka/faults
	FAULTS_STATE=topic $(BIN)/pytest -n 0 --timeout 3600 tests/kafka/faults
	FAULTS_STATE=url $(BIN)/pytest -n 0 --timeout 3600 -m 'not long' tests/kafka/faults

mutations: $(VENV)/.dev   ## break the library on purpose, one change at a time: the table in benchmarks/results (hours)
	$(BIN)/python -m tests.model.mutations --jobs $(JOBS)

check: lint site  ## all that lint checks, and the links of the site

lint: $(VENV)/.dev prose  ## formatting, lint, types, language, structure, names, pins
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tools.checks

prose: $(VENV)/.dev    ## check the language of all texts; FILES="docs/kafka.md stream_osr": of these alone
	$(BIN)/python -m tools.prose --summary $(FILES)

MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs
site: $(VENV)/.dev    ## build the documentation into site/; a link or name that leads nowhere fails
	$(MKDOCS) build --strict

site-serve: $(VENV)/.dev   ## show the documentation at 127.0.0.1:8000 as it is written
	$(MKDOCS) serve

golden: $(VENV)/.dev   ## write what the library says in seven streams into OUT=folder
	$(BIN)/python -m tools.golden write $(OUT)

golden-compare: $(VENV)/.dev   ## compare two such folders, A= and B=, byte for byte
	$(BIN)/python -m tools.golden compare $(A) $(B)

accuracy: $(VENV)/.dev   ## measure accuracy by the paper's protocol into docs/results (a night; goes on where it was)
	-$(ACCURACY) --openness curve --methods stream-osr,baselines,comparators
	-$(ACCURACY) --methods "CD-OSR,CD-OSR class-wise" --test-share 0.2,0.4,0.6,0.8,1
	-$(ACCURACY) --openness high --methods stream
	-$(ACCURACY) --openness high --decision-delay 256
	-$(ACCURACY) --openness medium --test-share 0.2,0.4,0.6,0.8
	-$(ACCURACY) --methods streamndr,sencforest,dirichlet_mixture,brand
	-$(ACCURACY) --datasets SATIMAGE,SHUTTLE --openness closed,high --methods stream-osr,baselines,comparators
	-$(ACCURACY) --draw-only --figures docs/results/figures --markdown benchmarks/results/tables.md
	$(BIN)/python -m benchmarks.paper
	$(BIN)/python -m benchmarks.openset.summary --write

BEFORE ?= 2c2959a
speed: $(VENV)/.dev   ## measure the cost of decisions into docs/results (an hour; quiet cores)
	$(BIN)/python -m benchmarks.speed --write
	$(BIN)/python -m benchmarks.before $(BEFORE) --write
	$(BIN)/python -m benchmarks.peers --write
	$(BIN)/python -m benchmarks.growth --figure docs/results/figures/growth.png --write
	$(BIN)/python -m benchmarks.active --write
	$(BIN)/python -m benchmarks.state --write
	$(BIN)/python -m benchmarks.keyed --write
	$(BIN)/python -m benchmarks.scale --write
	$(BIN)/python -m benchmarks.width --write

pictures: site   ## take pictures of the report, the live page and the home page into OUT=folder (needs `make browser`)
	$(BIN)/python -m tools.pictures $(OUT)

package: warmup   ## build what is published (sdist, wheel) into dist, and try it in a new environment
	$(BIN)/python -m tools.package

lowest: $(VENV)/.dev   ## try the least versions of the runtime dependencies in a new environment
	$(BIN)/python -m tools.bounds lowest

newest: $(VENV)/.dev   ## try their newest releases, of numba also one beyond its bound
	$(BIN)/python -m tools.bounds newest

image-check:     ## build the Dockerfile and run the image, without a daemon (Debian, as root; ten minutes)
	@command -v buildah >/dev/null && command -v mmdebstrap >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends buildah mmdebstrap; }
	tools/try_image

wheel: $(VENV)/.dev    ## build the plain wheel and the one that brings its machine code into dist, and try that one
	$(BIN)/python -m tools.wheel dist
	tools/try_wheel dist

format: $(VENV)/.dev   ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:           ## remove the environment and every cache
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
