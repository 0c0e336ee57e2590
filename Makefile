# `make demo` shows the library at work, `make test` runs every check, `make check` the quick ones.
# Each installs what it needs into .venv, inside this folder; only Python and pip are assumed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
USABLE := $(VENV)/.usable
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal -q --durations 25 --durations-min 1

# Versions to install. Others: `make clean suite CONSTRAINTS=constraints-oldest.txt`.
CONSTRAINTS ?= constraints.txt

# Two OpenMP pools on few cores slow each other down: one thread each.
export OMP_NUM_THREADS ?= 1

# Damaged files that `make fuzz` tries, and by how much `make faults` multiplies its random faults.
FUZZ   ?= 2000
FAULTS ?= 10

.PHONY: demo test check suite quick lint types docs browser bench fuzz faults bounds dist release clean

demo: $(USABLE)
	$(BIN)/bliss demo

test: lint types suite

# The tests alone, with any versions: lint and types belong to the pinned ones.
suite: $(READY) browser
	$(PYTEST)

check: lint types quick

# The quick tests alone, with any versions.
quick: $(READY)
	$(PYTEST) -m "not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# The documentation, into site/; a warning is an error.
docs: $(READY)
	$(BIN)/python docs/build.py

# Tests of report pages need a browser. It is installed where this user may install packages.
browser:
	@for name in chromium chromium-browser google-chrome; do \
	  command -v $$name >/dev/null && exit 0; \
	done; \
	{ test "$$(id -u)" = 0 && command -v apt-get; } >/dev/null && apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive \
	  apt-get install --yes -qq --no-install-recommends chromium >/dev/null || \
	echo "Chromium is missing and cannot be installed by this user: tests of pages are skipped" \
	  "(under CI they fail). Install it with your package manager to run them."

bench: $(READY)
	$(BIN)/python -m benchmarks sampling

# Damaged and hostile files: counts of outcomes. `make fuzz FUZZ=10000` takes about five minutes.
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --count $(FUZZ)

# Killed processes, power loss and failing disks, at many more moments than in `make test`.
faults: $(READY)
	FAULTS=$(FAULTS) $(PYTEST) -rP tests/faults

# All tests with kernels that check every index, compiled into a folder of their own.
bounds: $(READY)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.numba-bounds $(PYTEST)

# Wheel and sdist into dist/, checked; `make release VERSION=0.1.0` also sets the version, commits and tags.
dist: $(READY)
	$(BIN)/python tools/release.py dist

release: $(READY)
	$(BIN)/python tools/release.py cut $(VERSION)

# The library alone.
$(USABLE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable .
	touch $@

# What the tests need besides.
$(READY): $(USABLE)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[test,docs]"
	touch $@

clean:
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .numba-bounds
