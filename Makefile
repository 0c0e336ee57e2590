# Two commands: `make demo` shows the library at work, `make test` runs every check.
# Each sets up what it needs in .venv, inside this folder; only Python and pip are assumed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Two OpenMP pools on few cores spin against each other: one thread each, on purpose.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint types check bench clean

demo: $(READY)
	$(BIN)/python -m bliss.demo

test: lint types $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks sampling

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[test]"
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
