# Needs: Python 3.10 to 3.13, a C compiler, make. Everything else is fetched into .venv and the user's data folder.
VENV := .venv
BIN := $(VENV)/bin
# relax (TVM 0.27), or relay
DIALECT ?= relax
# seconds of the demo after the downloads
TIMEOUT ?= 180

# The first interpreter that starts and has a version the library runs on; PYTHON=… names another.
# On 3.10 the Relay compiler has its fast foreign-function interface, so 3.10 comes first.
FITS := import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))
CANDIDATES := python3.10 python3.11 python3.12 python3.13 python3 python
PYTHON ?= $(shell for python in $(CANDIDATES); do \
	"$$python" -c '$(FITS)' >/dev/null 2>&1 && echo "$$python" && break; done)

.PHONY: demo docs env test test-frameworks soak relay relax lint clean

# The last three lines say what came of it.
demo: $(DIALECT)
	$(BIN)/python examples/three_minutes.py --toolchain $(DIALECT) --seconds $(TIMEOUT)

# All that a test needs: the library, the test tools and a compiler.
env: relax $(VENV)/test.stamp

# Files of tests run side by side, as most of their time is one process's. PROCESSES=0 runs them one after the other. In
# alphabetical order: files with few tests, which xdist would keep for the end, are the slow ones.
PROCESSES ?= 2
# With CUDA the tests build for GPUs too, which needs no GPU; it downloads 108 MB more.
test: lint relay $(VENV)/test.stamp
	$(BIN)/passsearch toolchain install relax --with cuda
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

# Not part of `test`: takes hours. Each line goes on where it stopped.
soak: relay relax
	$(BIN)/python -m benchmarks.faults.fault_matrix
	$(BIN)/python -m benchmarks.faults.soak relax 10000
	$(BIN)/python -m benchmarks.faults.soak relay 3000 --block 750

# Not part of `test`: needs Python 3.10 or 3.11 and 3 GB for the frameworks.
test-frameworks: $(VENV)/test.stamp
	$(BIN)/passsearch toolchain install relay --with mxnet,tensorflow,torch
	$(BIN)/passsearch toolchain install relax --with torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mxnet,tensorflow,torch,transformers]'
	$(BIN)/python -m pytest -rs tests/frontends tests/evaluate/test_model_import.py
	$(BIN)/python -m pytest -m slow tests/frontends/test_hostile_frameworks.py

relay relax: $(VENV)/library.stamp
	$(BIN)/passsearch toolchain install $@

# The site, in build/docs; a warning is an error.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet -b html docs build/docs
	@echo "The first page is build/docs/index.html."

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Packages by their hashes, from requirements/; the option --editable takes none, so passsearch itself comes second.
LOCK = requirements/$(1)-$$($(BIN)/python -c 'import sys; print("py%d%d" % sys.version_info[:2])').txt
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
$(VENV)/library.stamp: setup.cfg setup.py pyproject.toml $(wildcard requirements/library-*.txt)
	@test -n "$(PYTHON)" || { echo "No Python 3.10 to 3.13 with venv found; run: make PYTHON=/path/to/python" >&2; exit 3; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) --require-hashes --requirement $(call LOCK,library)
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/test.stamp: $(VENV)/library.stamp $(wildcard requirements/test-*.txt)
	$(INSTALL) --require-hashes --requirement $(call LOCK,test)
	touch $@

$(VENV)/docs.stamp: $(VENV)/library.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist runs *.egg-info .mypy_cache .pytest_cache .ruff_cache
