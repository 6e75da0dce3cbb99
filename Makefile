# `make demo` and `make test` need Python 3.11 or newer and make, nothing else: .venv is made when it is not there.
PYTHON ?= python3
BIN := .venv/bin
# The tests start a thousand processes: where Python may keep no byte code, each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test soak servers lint docs clean

demo: .venv/ready
	$(BIN)/stopwav demo

# Two at a time, of one thread each: more would wait for each other. What times something runs alone, afterwards.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not alone and not soak and not servers" --durations 10
	$(BIN)/python -m pytest -m "alone and not soak and not servers" $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

# Minutes of simulations, kills and real recognisers, for a release: what `make test` proves with fewer of each.
soak: .venv/tested
	$(BIN)/python -m pytest -m soak --timeout 1800

# Our clients against servers that others wrote, each installed into an environment of its own in the user's cache.
servers: .venv/tested
	$(BIN)/python -m pytest -m servers --timeout 1800

lint: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/tested
	$(BIN)/python scripts/make_reference.py

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info

# What the demo needs.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip setuptools
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[moonshine]'
	touch $@

# What the tests need beside it: the tools, and PyTorch.
.venv/tested: .venv/ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable '.[moonshine,torch,transformers,sherpa-onnx,vosk,servers,grpc]'
	touch $@
