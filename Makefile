# The two commands: `make demo` and `make test`. Both make their own environment in .venv on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all bench check docs clean

demo: $(VENV)/.demo-ready
	scripts/demo

test: $(VENV)/.test-ready
	scripts/check
	scripts/test -m "not slow"

test-all: $(VENV)/.test-ready
	scripts/setup browser
	scripts/check
	scripts/test

bench: $(VENV)/.test-ready
	scripts/bench

check: $(VENV)/.test-ready
	scripts/check

docs: $(VENV)/.test-ready
	scripts/docs

$(VENV)/.demo-ready: pyproject.toml scripts/setup
	PYTHON=$(PYTHON) scripts/setup demo
	touch $@

$(VENV)/.test-ready: pyproject.toml constraints.txt scripts/setup
	PYTHON=$(PYTHON) scripts/setup test
	touch $@

clean:
	rm -rf $(VENV) .demo .bench .hypothesis build dist
