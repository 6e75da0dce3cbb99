# `make demo` and `make test` need Python 3.11 or newer and make, nothing else: .venv is made when it is not there.
PYTHON ?= python3
BIN := .venv/bin
# The tests start a thousand processes: where Python may keep no byte code, each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test soak servers lint docs site clean

demo: .venv/ready
	$(BIN)/stopwav demo

# Three at a time, of one thread each: on two cores, as a quarter of their time is waiting. What times something runs
# alone, afterwards.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not alone and not soak and not cluster and not servers" --durations 10
	$(BIN)/python -m pytest -m "alone and not soak and not cluster and not servers" $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

# Minutes of simulations, kills and real recognisers, for a release: what `make test` proves with fewer of each.
soak: .venv/soaked
	$(BIN)/python -m pytest -m "soak or cluster" --timeout 1800

# Our clients against servers that others wrote, each installed into an environment of its own in the user's cache.
servers: .venv/tested
	$(BIN)/python -m pytest -m servers --timeout 1800

lint: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/tested
	$(BIN)/python scripts/make_reference.py

# The documentation as a site in build/site; `python -m http.server -d build/site` shows it.
site: .venv/tested
	$(BIN)/mkdocs build --strict

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
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable '.[moonshine,torch,transformers,sherpa-onnx,vosk,servers,grpc,ray,slurm,datasets,lhotse]'
	touch $@

# What `make soak` needs beside it: the packages that read what stopwav writes for them.
.venv/soaked: .venv/tested
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group soak --editable '.[mlflow,tensorboard]'
	touch $@
