# Plain pip and venv. `make venv` is the set-up shared by every other target.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: venv demo test lint format clean

venv: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# A real forecast in two minutes: a table here, a report, a picture and a model in seqgp-demo/.
demo: venv
	$(BIN)/seqgp demo

test: venv
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --cov --cov-report=term

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage
