# The two commands of this repository are `make up` and `make test`; `make help` lists the rest.
# Nothing is needed beforehand but Python 3.11+ and make: Node comes as a wheel where there is none.

SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq
REPORTS := .cache/reports
WEB_RUN := $(BIN)/python tools/web.py run
VITEST_REPORT := --reporter=default --reporter=junit --outputFile.junit=$(CURDIR)/$(REPORTS)

# Kept bytecode makes every start of a server or a client several times quicker.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help up install web dev test coverage lint format bench quick clean pytest pytest-alone \
	check-dev check-environments check-needs check-e2e check-ruff check-format check-mypy check-tsc \
	check-oxlint check-vitest

help:
	@echo 'make up      install into $(VENV) and start Trackyard on http://127.0.0.1:8000 (YARD_HOME, YARD_PORT)'
	@echo 'make test    install what the tests need and run all of them'
	@echo 'make quick   linters and unit tests alone'
	@echo 'make lint    ruff, mypy and the front end'"'"'s own; make format mends what can be mended'
	@echo 'make coverage tells what share of the source the unit and integration tests run'
	@echo 'make bench   measure speed beside MLflow and FastTrackML'
	@echo 'make web     build the web pages; make dev installs the tools; make clean removes what was built'

up: install web
	@exec $(BIN)/yard up --port "$${YARD_PORT:-8000}"

install: $(STAMPS)/install

# The tool decides by content whether a build is due, and is done in a fraction of a second if not.
web: $(STAMPS)/install
	@$(BIN)/python tools/web.py build

dev: $(STAMPS)/dev

# Checks share two cores, three at a time since some wait for the network; then pytest has them to itself.
# A check that fails keeps none of the others from running, and the last line counts them all.
CHECK := sh tools/check.sh
MODULES_ALONE = $$(grep -rlE 'mark\.alone' tests --include='test_*.py')
SPREAD := --dist loadscope --durations=15
CHECKS := check-dev check-environments check-needs check-e2e check-ruff check-format check-mypy check-tsc \
	check-oxlint check-vitest

# Two thousand random histories of the queue; a quick run has a tenth.
test: export YARD_MODEL_HISTORIES ?= 40
test: $(BIN)/python
	@rm -rf $(REPORTS)
	@$(MAKE) --no-print-directory --keep-going --jobs=3 $(CHECKS) || true
	@$(MAKE) --no-print-directory pytest || true
	@$(MAKE) --no-print-directory pytest-alone || true
	@$(BIN)/python tools/report.py

quick: check-ruff check-format check-mypy
	@$(BIN)/python -m pytest tests/unit -n 2 -q

coverage: dev web
	@mkdir -p .cache/coverage
	@$(BIN)/python -m pytest tests/unit tests/integration -m 'not alone' -n 2 $(SPREAD) --cov --cov-report=
	@$(BIN)/python -m coverage report --format=total

lint: check-ruff check-format check-mypy check-tsc check-oxlint
	@$(BIN)/python -m pytest tests/unit/test_imports.py -q

format: dev
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

# Most tests wait for processes half of their time, so five at once keep two cores busy.
pytest: dev web
	@LIVE=1 $(CHECK) pytest $(BIN)/python -m pytest -n 5 $(SPREAD) -m 'not alone'

# Tests that measure time or memory: one beside another, since most of these wait too.
pytest-alone: dev web
	@LIVE=1 $(CHECK) pytest-alone $(BIN)/python -m pytest -n 2 $(SPREAD) -m alone $(MODULES_ALONE)

check-dev:
	@$(CHECK) dev $(MAKE) --no-print-directory dev web
check-environments: $(BIN)/python
	@$(CHECK) environments $(BIN)/python tools/client_envs.py
check-needs:
	@$(CHECK) needs sh tools/test_needs.sh
check-ruff: check-dev
	@$(CHECK) ruff $(BIN)/ruff check --quiet .
check-format: check-dev
	@$(CHECK) format $(BIN)/ruff format --check --quiet .
check-mypy: check-dev
	@$(CHECK) mypy $(BIN)/mypy
check-tsc: check-dev
	@$(CHECK) tsc $(WEB_RUN) typecheck
check-oxlint: check-dev
	@$(CHECK) oxlint $(WEB_RUN) lint
check-vitest: check-dev
	@$(CHECK) vitest $(WEB_RUN) test -- $(VITEST_REPORT)/vitest.xml
check-e2e: check-dev check-needs
	@$(CHECK) e2e $(WEB_RUN) e2e -- $(VITEST_REPORT)/e2e.xml

bench: dev web
	@$(BIN)/python tools/client_envs.py mlflow3 fasttrackml
	@$(BIN)/python -m bench.tracking $(BENCH)

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .cache/coverage .cache/reports
	rm -rf frontend/node_modules frontend/dist $(VENV)
	find src/trackyard/web -mindepth 1 ! -name __init__.py -delete
	find . -name __pycache__ -not -path './.cache/*' -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo 'Trackyard needs Python 3.11 or newer; none was found.' >&2; \
		echo 'hint: install one, or name it: make up PYTHON=/path/to/python3.12' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo 'hint: on Debian and Ubuntu, `apt install python3-venv` brings what is missing.' >&2; exit 1; }

# Editable, so that a `git pull` is in effect at the next start. The pages are built by `web`.
$(STAMPS)/install: $(BIN)/python pyproject.toml hatch_build.py
	@echo 'installing Trackyard into $(VENV)'
	@YARD_SKIP_WEB=1 $(PIP) --editable .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: $(STAMPS)/install
	@echo 'installing the development tools into $(VENV)'
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) --group dev
	@touch $@
