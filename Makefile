# make screen   install into .venv and screen the sample cohort with the shipped model
# make bench    install, then time every stage against what one would run instead, and against the machine
# make test     install into .venv what development needs and run every check
# make faults   install, then the fault matrix in its long form: every fault, how often it was tried, how often it hurt
# make audit    install, then ask PyPI's advisories about every package that was installed
# make clean    remove .venv and caches; results in levyscreen-out stay
#
# VENV and PYTHON may be given: make test PYTHON=python3.12 VENV=/tmp/venv; and to bench a COHORT: make bench COHORT=set-b

VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: screen bench test faults audit clean
.DELETE_ON_ERROR:

screen: $(VENV)/.installed
	$(BIN)/levyscreen screen examples/set-b-sample --top-decile

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks $(COHORT)

# pytest comes last: its closing line is the verdict. Two processes share the modules.
test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup

faults: $(VENV)/.installed-dev
	$(BIN)/python -m tests.faults

# From an environment of its own, so that what it looks at is what users have.
audit: $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet pip-audit
	$(VENV)/audit/bin/pip-audit --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# A stamp is newer than what it was made from, so a second call installs nothing.
$(VENV)/.python:
	$(PYTHON) -c 'import sys; sys.exit("levyscreen needs Python 3.11 or newer: make PYTHON=python3.12") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch alone and pinned first: unpinned, pip may fetch gigabytes of another version before it looks at the rest.
$(VENV)/.torch: constraints.txt $(VENV)/.python
	$(INSTALL) torch
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.torch
	$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find levyscreen models tests examples benchmarks docs -name __pycache__ -prune -exec rm -rf {} +
