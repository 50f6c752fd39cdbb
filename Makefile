# `make demo` and `make test` are all a newcomer needs; both set up .venv from requirements.lock first.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
JOBS ?= 4

.PHONY: help demo test check search simulate simulate-calendar simulate-cluster simulate-crashes mutants mutants-cluster storm bench lock clean

help:
	@echo "make demo    three voters and a worker on loopback, live, with the owner killed midway (Ctrl-C ends it; DEMO_SECONDS=25 ends by itself)"
	@echo "make test    the whole test suite, under 5 minutes on 2 cores"
	@echo "make check   ruff, mypy --strict, import-linter"
	@echo "make search  every interleaving of runs, attempts, owners, lives and crashes within small bounds; WALK=name, or WALK=--large for hours"
	@echo "make simulate SEEDS=1000           the whole product on virtual time under faults; each failure with a line that replays it"
	@echo "make simulate-cluster SEEDS=5000   the voter on virtual time under faults; each failure with a line that replays it"
	@echo "make simulate-calendar SEEDS=23516 the calendar against an oracle; so many seeds look at every change of every zone's clock once"
	@echo "make simulate-crashes SEEDS=50     a story per seed; every way of dying at every store operation of it"
	@echo "make mutants                       deliberate faults in the product, and the seed or the walk that finds each; ONLY=word"
	@echo "make mutants-cluster               each guard taken away in turn, and what noticed"
	@echo "make storm SECONDS=600 SEED=1      kill -9, SIGSTOP and partitions over real voters; NETWORK=loopback|proxy|namespaces|all, FAULT=\"...\" takes a guard away"
	@echo "make bench BENCH=...                the voter and etcd side by side; BENCH=\"--help\" tells what can be chosen"
	@echo "make lock    write requirements.lock anew from pyproject.toml"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fencepost needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "cannot make a virtual environment: on Debian, apt-get install python3-venv" >&2; exit 1; }
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

demo: $(READY)
	@$(VENV)/bin/python deploy/demo/demo.py

# Without bytecode on disk every process that a test starts would compile the whole program again.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest -q -n $(JOBS) --dist load --maxschedchunk 1

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

search: $(READY)
	$(VENV)/bin/python -m tests.search $(WALK)

simulate: $(READY)
	PYTHONHASHSEED=0 $(VENV)/bin/python -m tests.simulation.product.simulate $(or $(SEEDS),1000) $(or $(FIRST),0)

simulate-calendar: $(READY)
	$(VENV)/bin/python -m tests.calendar.simulate $(or $(SEEDS),1000) $(or $(FIRST),0)

simulate-cluster: $(READY)
	PYTHONHASHSEED=0 $(VENV)/bin/python -m tests.simulation.cluster.simulate $(or $(SEEDS),1000) $(or $(FIRST),0)

simulate-crashes: $(READY)
	PYTHONHASHSEED=0 $(VENV)/bin/python -m tests.simulation.cluster.crashes 1 $(or $(SEEDS),50)

mutants: $(READY)
	PYTHONHASHSEED=0 $(VENV)/bin/python -m tests.mutants.product $(ONLY)

mutants-cluster: $(READY)
	$(VENV)/bin/python -m tests.mutants.run cluster $(ONLY)

storm: $(READY)
	$(VENV)/bin/python -m tests.processes.storms.run $(or $(SECONDS),120) $(or $(SEED),1) $(or $(NETWORK),all) $(if $(FAULT),"$(FAULT)")

bench: $(READY)
	$(VENV)/bin/python -m bench $(BENCH)

lock: $(READY)
	$(VENV)/bin/python -m pip install --quiet pip-tools
	$(VENV)/bin/pip-compile --quiet --extra dev --allow-unsafe --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-options --no-emit-trusted-host --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
