# The same few commands for people and for CI. `make demo` and `make test` do all the set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A file's tests share what they set up, so they stay together; mostly they wait for the engine.
PYTEST = $(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile

.PHONY: setup engine demo check test test-slow attacks clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]'
	@touch $@

engine: setup
	$(BIN)/beyondswe engine setup --yes

demo: engine
	$(BIN)/beyondswe eval --dataset demo --agent oracle
	$(BIN)/beyondswe eval --dataset demo --agent nop

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check engine
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-slow: setup engine
	$(PYTEST) -m slow $(PYTEST_ARGS)

attacks: setup engine
	$(BIN)/python -m tests.attacks $(CASES)

clean:
	rm -rf $(VENV) build dist
