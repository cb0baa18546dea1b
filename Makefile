# make setup, demo, test, lint, bench: each makes the environment first when it isn't there or is out of date.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.ONESHELL:

ifeq ($(filter oneshell,$(.FEATURES)),)
$(error GNU Make 3.82 or newer is needed and this is $(MAKE_VERSION) (macOS: brew install make, then gmake))
endif

VENV := .venv
STAMP := $(VENV)/.set-up
PY := $(VENV)/bin/python
BASE_PYTHON ?= $(firstword $(shell command -v python3.11 || command -v python3) python3)
# What make test-pythons tries: an interpreter that does not run (a shim of pyenv for one that is switched off) is passed over.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
TESTS ?= tests
SHARED ?= ../shared
BASE ?= main
# The demo's programs and the tests start Python processes of their own: they must find the same interpreter.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# Images of containers often set this: each driver, each of Spark's workers and each of pytest's would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

# What the tests need of the project's extras.
TESTED := kafka,jdbc,elasticsearch,kinesis,rabbitmq,pulsar,cassandra,avro,sql,ui,test,demo,soak

# What users import; the reference is made of its docstrings.
DOCUMENTED := changelog_engine.api.common changelog_engine.api.datastream changelog_engine.api.datastream.state changelog_engine.api.datastream.window changelog_engine.api.datastream.functions \
    changelog_engine.api.datastream.connectors $(addprefix changelog_engine.api.datastream.connectors.,cassandra elasticsearch hybrid_source kinesis pulsar) \
    changelog_engine.errors changelog_engine.connectors.protocols \
    changelog_engine.state.backend changelog_engine.state.timer_table changelog_engine.state.identity_bytes changelog_engine.state.entry_bytes

.PHONY: help setup servers demo test test-fast test-pythons search lint format docs pictures bench bench-quick soak golden clean check-java

help:  ## this text
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):[^#]*##/  make \1\t/' | expand -t 22

setup: $(STAMP)  ## make .venv with everything that demo, test, lint and bench need

$(STAMP): pyproject.toml .ci/constraints.txt setup.py changelog_engine/types/_row_loops.c changelog_engine/state/_handles.c
	@if ! command -v $(BASE_PYTHON) >/dev/null || ! $(BASE_PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'; then
	    echo "Python 3.11 to 3.14 is needed and '$(BASE_PYTHON)' is not one. Install one (Debian, Ubuntu: apt-get install python3.11" >&2
	    echo "python3.11-venv; else uv or pyenv), or name it: make setup BASE_PYTHON=/path/to/python3.11" >&2
	    exit 1
	fi
	if ! $(PY) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
	    rm -rf $(VENV)
	    $(BASE_PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python cannot make environments: install its venv module (apt-get install python3.11-venv)." >&2; exit 1; }
	fi
	echo "Installing into $(VENV) (first time: some 600 MB to download, 1,200 MB on the disk) ..."
	# Downloads go into the same folder, so that its size shows them too.
	mkdir -p $(VENV)/.downloads
	pip=
	trap 'kill $$pip 2>/dev/null || true; rm -rf $(VENV)/.downloads' EXIT
	trap 'exit 130' INT  # what runs in the background does not hear Ctrl-C
	TMPDIR=$(CURDIR)/$(VENV)/.downloads $(PY) -m pip install --quiet --disable-pip-version-check --upgrade-strategy only-if-needed -c .ci/constraints.txt -e '.[$(TESTED),lint,bench,docs]' &
	pip=$$!
	while [ -t 1 ] && kill -0 $$pip 2>/dev/null; do
	    printf '\r\033[K  %s MB on the disk, %s s ' "$$(du -sm $(VENV) 2>/dev/null | cut -f 1)" "$$SECONDS"
	    sleep 1
	done
	[ ! -t 1 ] || printf '\r\033[K'
	wait $$pip
	touch $@
	echo "$(VENV) is ready."

servers: $(STAMP) check-java  ## what the connectors' tests need: Kafka, OpenSearch, PostgreSQL ... (into .servers, 6 minutes), and an archive of Spark's classes
	@$(PY) tests/servers/install.py

check-java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"
	major=$$({ "$$java" -version 2>&1 || true; } | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1)
	if [ "$${major:-0}" -lt 17 ]; then
	    echo "Java 17 or newer is needed and '$$java' is $${major:+version }$${major:-not there}." >&2
	    echo "Install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)," >&2
	    echo "or set JAVA_HOME to where it is." >&2
	    exit 1
	fi

demo: $(STAMP) check-java  ## a year of flights: run, kill -9 half-way, go on, compare (under 4 minutes)
	@$(PY) docs/examples/flights/demo.py

test: $(STAMP) check-java  ## all tests
	@status=0
	# Slow tests wait for processes that start or end: three at once leave a third of two cores idle. The others wait for threads
	# and clocks; three of theirs run in that, behind four slow ones, and each of their lines is shown with "fast:" before it.
	said=$$(mktemp)
	nice -n 10 $(PY) -m pytest -m 'not slow' -n 3 --dist worksteal -o cache_dir=.pytest_cache/fast > "$$said" 2>&1 &
	fast=$$!
	# A tail that cannot follow a process, as a Mac's, shows nothing: then all of it comes at the end.
	{ tail -n +1 -s 0.1 -f --pid $$fast "$$said" 2>/dev/null || { while kill -0 $$fast 2>/dev/null; do sleep 0.1; done; cat "$$said"; }; } | sed -u 's/^/fast: /' &
	shown=$$!
	trap 'kill $$fast 2>/dev/null || true; rm -f "$$said"' EXIT
	trap 'exit 130' INT  # what runs in the background does not hear Ctrl-C
	slow=0
	# Slow tests kill real processes and servers on a machine that others may load: what failed is run once more, alone.
	$(PY) -m pytest -m slow -n 4 --dist loadfile --no-loadscope-reorder --durations 25 --durations-min 10 || slow=$$?
	wait $$fast || status=1
	wait $$shown || true
	[ "$$slow" -le 1 ] || status=1  # it did not come to its end: more than what failed was not run
	if [ "$$slow" != 0 ]; then
	    echo "Once more, alone, what failed. What passes now failed by the clock or by the machine; mend it all the same."
	    $(PY) -m pytest -m slow --last-failed --last-failed-no-failures none --maxfail 3 || status=1
	fi
	exit $$status

test-fast: $(STAMP)  ## the tests that need no Spark
	@$(PY) -m pytest -m 'not slow' -n 3 --dist worksteal

test-pythons: check-java  ## on each Python found (PYTHONS="/path/to/python3.14 ..."): pip install ., the demo, README's programs, tests without Spark
	@status=0 run=0
	for python in $(PYTHONS); do
	    version=$$("$$python" -c 'import platform; print(platform.python_version())' 2>/dev/null) || { echo "== $$python does not run: passed over"; continue; }
	    own=$(CURDIR)/.pythons/$$version
	    echo "== Python $$version"
	    [ -x "$$own/bin/python" ] || "$$python" -m venv "$$own"
	    rm -rf build  # modules that are gone would go into the package
	    "$$own/bin/python" -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt '.[$(TESTED)]'
	    "$$own/bin/python" -m pip check
	    export PATH="$$own/bin:$$PATH"
	    # From a folder of its own, so that the package that was installed runs and not the checkout.
	    (cd "$$own" && changelog-engine demo --small) || status=1
	    # The tests run what is in the checkout, so it needs the extensions for this Python, too.
	    python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	    python -c 'from changelog_engine.types.row_loops import WHY_NOT as rows; from changelog_engine.state.handles_in_c import WHY_NOT as handles; raise SystemExit(rows or handles)' || status=1
	    python -m pytest -q -m 'not slow' -n 3 --dist worksteal $(TESTS) || status=1
	    python -m pytest -q 'tests/unit/test_readme.py::test_scripts_print_what_the_document_shows[README.md]' || status=1
	    run=$$((run + 1))
	done
	[ "$$run" != 0 ] || { echo "None of $(PYTHONS) runs. Name one: make test-pythons PYTHONS=/path/to/python3.13" >&2; exit 1; }
	exit $$status

search: $(STAMP)  ## random tests with choices no run has made (HYPOTHESIS_PROFILE=long for an hour): for nights, not for gates
	@export HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-hunt} TEST_SEED=$${TEST_SEED:-random}
	status=0
	$(PY) -m pytest -n 2 --dist worksteal -m 'not slow' tests/properties tests/unit tests/reliability || status=1
	$(PY) -m pytest -n 2 --dist loadfile -m slow tests/properties tests/reliability || status=1
	exit $$status

lint: $(STAMP)  ## formatting, lint, types, import direction
	@$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo

format: $(STAMP)  ## put the code into its format
	@$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

docs: $(STAMP)  ## the documentation as a site, site/index.html, with the API reference out of the docstrings
	@rm -rf docs/api
	$(PY) docs/making/reference.py docs/api $(DOCUMENTED) 2>&1 | { grep -v 'Error parsing type annotation' || true; }
	test -s docs/api/changelog_engine/api/datastream.html
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict 2>&1 | { grep -v '^INFO' || true; }  # --quiet would count no warnings
	echo "The site is site/index.html"

pictures: $(STAMP)  ## the documentation's screenshots, by Chromium, for the next make docs; kept out of git
	@$(PY) docs/making/pictures.py

bench: $(STAMP) check-java  ## throughput, checkpoints, restore and memory against the peers, in one table
	@$(PY) tests/bench/bench.py

bench-quick: $(STAMP) check-java  ## this tree against another (BASE=main), in turns, five minutes; fails on 5 % more CPU
	@$(PY) tests/bench/quick.py $(BASE)

soak: $(STAMP) check-java  ## one job for an hour (SOAK_MINUTES=10), with kills: is everything flat? A report with plots
	@$(PY) tests/soak/soak.py

golden: $(STAMP) check-java  ## the golden programs and the documented API, where $(SHARED) is at hand
	@if [ ! -d "$(SHARED)" ]; then echo "golden: no $(SHARED) here, nothing to compare with"; exit 0; fi
	status=0
	$(PY) $(SHARED)/seed_api/check_seed_api.py --map pyflink=api $(SHARED)/seed_api/seed_api.json || status=1
	run=("$(PY)" "$(SHARED)/golden/run_golden.py" --python "$(CURDIR)/$(PY)" --map pyflink=api)
	said=$$("$${run[@]}" "$(SHARED)/golden") && again=() || mapfile -t again < <(sed -nE 's|^FAIL ([^:]+):.*|$(SHARED)/golden/\1.py|p' <<<"$$said")
	echo "$$said"
	# Some programs go by the clock: what fails is run once more, alone.
	for program in "$${again[@]}"; do
	    echo "once more: $$program"
	    "$${run[@]}" "$$program" || status=1
	done
	[[ "$$said" == *" programs match"* ]] || status=1
	exit $$status

clean:  ## remove what make made, .venv too
	@rm -rf $(VENV) .pythons docs/api docs/pictures site .servers .bench .demo build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
