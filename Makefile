# Everything sets itself up in .venv; Python 3.11 or newer, pip and make are all it takes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

# Busy cores make several OpenMP threads slower than one.
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test browser postgresql slow ray check docs audit fuzz format clean

setup: $(READY)

$(CORE): pyproject.toml constraints.txt
	@echo "Setting up $(VENV); this takes minutes, most of them for PyTorch."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable .
	touch $@

$(READY): $(CORE)
	$(INSTALL) --editable ".[dev,docs,audit]"
	touch $@

demo: $(CORE)
	$(BIN)/pdnas search

test: $(READY)
	$(BIN)/python -m pytest -n 2

browser: $(READY)
	$(BIN)/python -m pytest -m browser

postgresql: $(READY)
	$(BIN)/python -m pytest -m postgresql

slow: $(READY)
	$(BIN)/python -m pytest -n 2 -m slow

ray: $(READY)
	$(BIN)/python -m pytest -m ray

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

audit: $(READY)
	$(BIN)/python tools/audit.py

READERS ?= $(shell sed -n 's/^    "\([a-z]*\)": make_.*/\1/p' tools/fuzz.py)
SECONDS ?= 600

fuzz: $(READY)
	for reader in $(READERS); do $(BIN)/python tools/fuzz.py $$reader --seconds $(SECONDS) || exit; done

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis site build
