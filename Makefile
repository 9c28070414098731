# Needs Python 3.11, make and a package registry. Everything else is installed into .venv.
#   make demo    trains on handwritten digits with two workers
#   make test    runs every check and every test
#   make check   is the quick loop, under two minutes

PYTHON ?= python3
UV_VERSION := 0.13.7
HOROVOD_VERSION := 0.28.1
HOROVOD_HASH := sha256:92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0
BIN := .venv/bin
UV := $(BIN)/uv pip install --python $(BIN)/python
STAMPS := .venv/.stamps
APT := apt-get -o DPkg::Lock::Timeout=300

export UV_HTTP_TIMEOUT ?= 300

.PHONY: help setup torch frameworks mpi demo test check cluster lint fmt soak bench deploy lock clean

help:            ## Lists the targets.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMPS)/project            ## Makes .venv with Bireme and the development tools.
torch: $(STAMPS)/torch              ## Adds PyTorch and Lightning (4.7 GB).
frameworks: $(STAMPS)/frameworks $(STAMPS)/horovod $(STAMPS)/mxnet mpi ## Adds every framework that the examples use, and Open MPI.

demo: setup torch                   ## Trains on handwritten digits with two workers.
	. $(BIN)/activate && bireme run examples/pytorch-digits/train.py --workers 2

test: setup                         ## Runs every check and every test; LESS=1 installs no frameworks and no Kubernetes.
	$(if $(LESS),BIREME_TEST_LESS=1) $(BIN)/python -m tools.suites $(if $(LESS),less,test)

check: setup                        ## The quick loop: lint, types, unit and architecture tests, a thousand seeds.
	$(BIN)/python -m tools.suites check

lint: setup                         ## Checks format, style, types and import layers.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: setup                          ## Formats the code and applies safe fixes.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

cluster: setup                      ## Brings up a Kubernetes of two nodes; the first time it is built (10 minutes).
	$(BIN)/python -m tools.testcluster up

soak: setup frameworks              ## Hammers for a long time.
	$(BIN)/pytest -m soak --timeout 0 -s

bench: setup frameworks             ## Measures against rivals in the same run.
	$(BIN)/python -m benchmarks

deploy: setup                       ## Renews deploy/, what is installed into a cluster.
	$(BIN)/python -m tools.deploy

lock: $(STAMPS)/uv                  ## Renews the lock files.
	$(COMPILE) --universal --extra dev --extra kubernetes -o requirements.lock
	$(COMPILE) $(ALL_FRAMEWORKS) -c requirements.lock -o frameworks.lock
	$(COMPILE) --extra torch -c requirements.lock -c frameworks.lock -o torch.lock

clean:                              ## Removes the environment and everything that tools left behind.
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

COMPILE := $(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links pyproject.toml
ALL_FRAMEWORKS := --extra jax --extra mpi --extra paddle --extra s3 --extra s3-server --extra tensorboard --extra tensorflow --extra torch --extra xgboost

$(STAMPS)/uv:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Bireme needs Python 3.11, this is " + sys.version'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check uv==$(UV_VERSION)
	mkdir -p $(STAMPS) && touch $@

$(STAMPS)/project: $(STAMPS)/uv requirements.lock pyproject.toml
	$(UV) --require-hashes -r requirements.lock
	$(UV) --no-deps --no-build-isolation --editable .
	touch $@

$(STAMPS)/torch: $(STAMPS)/project torch.lock
	$(UV) --require-hashes -r torch.lock
	touch $@

$(STAMPS)/frameworks: $(STAMPS)/torch frameworks.lock
	$(UV) --require-hashes -r frameworks.lock
	touch $@

# Only horovodrun, which is plain Python: compiling the rest takes long (tools/horovod), and only `make soak` needs it.
$(STAMPS)/horovod: $(STAMPS)/uv
	rm -rf .venv/horovod && mkdir .venv/horovod
	echo "horovod==$(HOROVOD_VERSION) --hash=$(HOROVOD_HASH)" \
		| $(BIN)/pip download --quiet --no-deps --no-binary :all: --require-hashes -d .venv/horovod -r /dev/stdin
	cd .venv/horovod && tar -xzf *.tar.gz --strip-components 1 horovod-$(HOROVOD_VERSION)/horovod && rm *.tar.gz
	touch $@

# In a folder of its own, for PYTHONPATH: MXNet needs a numpy that is older than all others take.
$(STAMPS)/mxnet: $(STAMPS)/uv mxnet.lock
	rm -rf .venv/mxnet
	$(UV) --require-hashes --target .venv/mxnet -r mxnet.lock
	touch $@

# Debian's Open MPI, where this user may install it.
mpi:
	@if command -v mpirun >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		$(APT) update -q && DEBIAN_FRONTEND=noninteractive $(APT) install -y -q --no-install-recommends openmpi-bin; \
	else echo "mpirun is not installed: the MPI examples are skipped. To have them: sudo apt-get install openmpi-bin"; fi
