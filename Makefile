# Two commands: `make demo` shows the library at work, `make test` runs every check.
# Each sets up what it needs in .venv, inside this folder; only Python and pip are assumed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
USABLE := $(VENV)/.usable
READY  := $(VENV)/.ready

# Two OpenMP pools on few cores spin against each other: one thread each, on purpose.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint types browser check bench clean

demo: $(USABLE)
	$(BIN)/python -m bliss.demo

test: lint types browser $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# The tests of reports look at pages in Debian's Chromium.
browser:
	@for name in chromium chromium-browser google-chrome; do \
	  command -v $$name >/dev/null && exit 0; \
	done; \
	as_root=$$(test "$$(id -u)" = 0 || echo sudo); \
	{ command -v apt-get && command -v $${as_root:-apt-get}; } >/dev/null && \
	$$as_root apt-get update -qq && \
	$$as_root env DEBIAN_FRONTEND=noninteractive \
	  apt-get install --yes -qq --no-install-recommends chromium >/dev/null || \
	echo "Chromium is not here and could not be installed: without CI set, tests of pages skip."

bench: $(READY)
	$(BIN)/python -m benchmarks sampling

# The library alone.
$(USABLE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# What the tests need besides.
$(READY): $(USABLE)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[test]"
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
