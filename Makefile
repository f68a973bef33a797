# What can be done here with nothing but Python 3.11 or newer and make?  `make help` lists it.

PYTHON  ?= python3
VENV    ?= .venv
EXTRAS  ?= all
FUZZ_EXAMPLES ?= 10000
FUZZ_SEED     ?= 1
WORKERS ?= auto
ARGS    ?=
NAMES   ?=

BIN   := $(VENV)/bin
comma := ,
# One stamp per set of extras: another set, or a changed pyproject.toml, installs again.
STAMP := $(VENV)/installed-$(subst $(comma),-,$(EXTRAS))

# Where an exercise is open a notebook fails; its solved form is run instead.
SOLVED    := $(wildcard workshop/solutions/*.ipynb)
NOTEBOOKS := $(filter-out $(patsubst workshop/solutions/%,workshop/%,$(SOLVED)),$(wildcard workshop/*.ipynb)) $(SOLVED)

# One BLAS thread: the workers already share the cores. One file stays on one worker: the cells of a
# notebook share a kernel.
ALONE  := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
SPREAD := --numprocesses $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder
UNIT   := not slow and not browser and not notebook

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where it is set, every kernel that a test starts compiles all of nki_lab and of its libraries anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv lab demo check quick room test fuzz bench workshop docs catalog extension

help:
	@echo 'make lab        open your copy of the workshop, nki-workshop, in JupyterLab on 127.0.0.1   (ARGS=--no-browser prints the address)'
	@echo 'make demo       run the first notebook without a browser and print what its kernel costs'
	@echo 'make test       run every check that CI runs   (ARGS=-x stops at the first failure; NKI_LAB_THOROUGH=1 runs more)'
	@echo 'make quick      run the unit tests of the rooms that differ from main'
	@echo 'make room       run all tests of one room   (ROOM=isa)'
	@echo 'make check      run only the static checks: ruff, mypy, import contracts'
	@echo 'make fuzz       compare random kernels with a reference, and before, between and after all passes   (FUZZ_EXAMPLES=10000 FUZZ_SEED=1)'
	@echo 'make bench      time the prebuilt kernels, and compare with the rows in docs/kernels   (NAMES=softmax; ARGS="--write docs/kernels" keeps them)'
	@echo 'make workshop   write the notebooks of the workshop anew from workshop/lessons   (NAMES=01_first_kernel)'
	@echo 'make docs       build the documentation site, build/docs/index.html, without a network'
	@echo 'make venv       only prepare $(VENV), with everything optional (EXTRAS=workshop: without tools)'
	@echo 'make catalog    tell the JupyterLab extension the current names and options, and build it'
	@echo 'make extension  build nki_lab/labextension from extension/ anew (needs Node.js 20 and npm)'

venv: $(STAMP)

# venv without ensurepip (Debian: python3-venv missing) leaves a folder without pip behind, so a
# folder counts as made only when its pip answers. JupyterLab is given a copy of the extension's
# built files, hence the second prerequisite; they are committed, so pip need not build them.
# rfc3987-syntax is taken away: it makes 39 grammars whenever it is loaded, seconds in every process that
# reads a notebook, and jsonschema, which nothing here asks for IRIs, does without.
$(STAMP): pyproject.toml $(wildcard nki_lab/labextension/package.json)
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "nki_lab needs Python 3.11 or newer; name one with: make PYTHON=python3.12")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo 'Installing nki_lab with $(EXTRAS) into $(VENV); the first time takes a minute.'
	@SKIP_JUPYTER_BUILDER=1 $(BIN)/python -m pip install --quiet --no-compile --editable '.[$(EXTRAS)]'
	@$(BIN)/python -m pip uninstall --quiet --yes rfc3987-syntax
	@touch $@

# The frameworks of which kernels become operators: tests need them, nothing else does.
FRAMEWORKS := $(VENV)/installed-frameworks
$(FRAMEWORKS): $(STAMP)
	@echo 'Installing PyTorch and JAX, with which kernels are tested.'
	@$(BIN)/python -m pip install --quiet --no-compile 'nki-lab[jax,torch]' 'torch==2.13.*'
	@touch $@

lab: $(STAMP)
	@$(BIN)/nki-lab workshop $(ARGS)

demo: $(STAMP)
	@$(BIN)/nki-lab execute workshop/solutions/01_first_kernel.ipynb --report $(ARGS)

workshop: $(STAMP)
	@$(ALONE) $(BIN)/python -m workshop.generate $(NAMES) $(ARGS)

# Reference pages are written from the code first; a warning is an error, as in CI.
docs: $(STAMP)
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo 'build/docs/index.html'

# A new instruction, function or option: the extension is built with a list of them.
catalog: $(STAMP)
	@$(BIN)/python -m pytest --quiet tests/extension/test_catalog.py -k file_is_current --update-golden
	@$(MAKE) --no-print-directory extension

extension: $(STAMP) extension/node_modules/.package-lock.json
	@cd extension && export PATH="$(abspath $(BIN)):$$PATH" && npm run build:prod && npm test

# The file npm leaves behind when it has installed everything.
extension/node_modules/.package-lock.json: extension/package-lock.json
	@cd extension && npm ci
	@touch $@

check: $(STAMP)
	@$(BIN)/python -m pytest --quiet tests/test_static.py

# The suite has a few of them; this looks for faults in many. A failure names the recipe of its kernel.
fuzz: $(STAMP)
	@$(ALONE) \
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) FUZZ_SEED=$(FUZZ_SEED) \
	$(BIN)/python -m pytest $(ARGS) tests/reference tests/fuzz tests/beta1/test_random_grids.py tests/beta1/test_random_index.py tests/beta1/test_random_access.py

# `make docs` makes a page of the rows in docs/kernels.
bench: $(STAMP)
	@$(ALONE) $(BIN)/nki-lab bench $(NAMES) --target trn2 --against docs/kernels $(ARGS)

# The unit tests of the rooms that differ from main.
quick: $(FRAMEWORKS)
	@$(BIN)/python -m ruff check --quiet .
	@$(ALONE) $(BIN)/python -m pytest --quiet -m '$(UNIT)' $(SPREAD) $(ARGS) $$($(BIN)/python -m tests.quick)

room: $(FRAMEWORKS)
	@$(ALONE) $(BIN)/python -m pytest --quiet $(SPREAD) $(ARGS) $(wildcard tests/$(ROOM) tests/test_$(ROOM).py)

# The static checks are among the tests, so that a core is not idle while they run.
test: $(FRAMEWORKS)
	@$(ALONE) $(BIN)/python -m pytest -r fEs --durations 10 $(SPREAD) \
	  $(if $(NOTEBOOKS),--nbval --nbval-current-env --nbval-cell-timeout=60 --nki-notebooks) \
	  $(ARGS) tests $(NOTEBOOKS)
