# Sutler. `make help` lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# With CI=true everything that can be kept is kept in one folder outside the checkout, so that a
# fresh clone reuses it; without that folder it all still works, only slower.
export SUTLER_CACHE ?= $(HOME)/.cache/sutler
ifeq ($(CI),true)
export CARGO_TARGET_DIR ?= $(SUTLER_CACHE)/target
# A clone is built once: what would make a second build quicker only makes the first one slower.
export CARGO_INCREMENTAL ?= 0
endif
export CARGO_TERM_COLOR ?= auto
# Under this name the parts of one run write down what they took.
export SUTLER_RUN := $(shell date +%s%N)

DATA_DIR ?= .sutler
LISTEN ?= 127.0.0.1:7443
TIMED = ./hack/timed.sh
# What links libvirt is left out where its headers are not: `make headers` gets them.
PACKAGES = --workspace $(shell pkg-config --exists libvirt 2>/dev/null || echo --exclude sutler-libvirt)

.PHONY: help
help: ## Shows this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

.PHONY: run
run: ## Builds and starts Sutler with the embedded defaults
	cargo build --release --locked -p sutler
	@if pkg-config --exists libvirt 2>/dev/null; then \
	    cargo build --release --locked -p sutler-libvirt; \
	else \
	    echo "without libvirt: for machines on it, install libvirt-dev and pkg-config, and run this again"; \
	fi
	@exec $${CARGO_TARGET_DIR:-target}/release/sutler serve --playground --data-dir $(DATA_DIR) --listen $(LISTEN)

.PHONY: build
build: ## Builds the sutler binary
	cargo build --release --locked -p sutler

.PHONY: check
check: ## Type-checks everything
	cargo check $(PACKAGES) --all-targets --locked --profile ci

.PHONY: fmt
fmt: ## Formats the code
	cargo fmt --all

.PHONY: lint
lint: ## Formatting, clippy, docs, dependencies, crate arrows, mutants: no warnings
	@$(TIMED) fmt cargo fmt --all --check
	@$(TIMED) clippy cargo clippy $(PACKAGES) --all-targets --locked --profile ci -- -D warnings
	@$(TIMED) doc env RUSTDOCFLAGS="-D warnings" cargo doc $(PACKAGES) --no-deps --locked --document-private-items --profile ci
	@$(TIMED) arrows cargo run -q --locked --profile ci -p xtask -- arrows
	@$(TIMED) sizes cargo run -q --locked --profile ci -p xtask -- sizes
	@$(TIMED) words cargo run -q --locked --profile ci -p xtask -- words
	@$(TIMED) mutants ./hack/mutants.sh --check
	@$(TIMED) deny ./hack/deny.sh

.PHONY: peers
peers: ## Builds or finds the real servers and clients that tests compare with
	@$(TIMED) peers ./hack/peers.sh

.PHONY: headers
headers: ## Gets the headers of libvirt where that can be done
	@$(TIMED) headers ./hack/packages.sh install /usr/include/libvirt/libvirt.h=libvirt-dev pkg-config=pkg-config || true

.PHONY: test
test: peers headers lint ## Everything that CI runs
	@$(TIMED) build cargo build $(PACKAGES) --bins --tests --locked --profile ci
	@$(TIMED) tests ./hack/tests.sh $(PACKAGES) --locked --profile ci
	@$(TIMED) --summary

.PHONY: test-long
test-long: peers ## The long kills, searches, fuzzing and mutants
	@$(TIMED) kills env SUTLER_KILL_ROUNDS=200 cargo test $(PACKAGES) --locked --profile ci kill -- --skip machines_and_records
	@$(TIMED) machine-kills env SUTLER_KILL_ROUNDS=1000 cargo test --locked --profile ci -p sutler --test machines kill
	@$(TIMED) cuts env SUTLER_CUT_ROUNDS=25 cargo test $(PACKAGES) --locked --profile ci --test machines cut::
	@$(TIMED) guests env SUTLER_WITHOUT_SIMULATION=1 SUTLER_ALL_CASES=1 SUTLER_LIBVIRT_KILLS=100 ./hack/tests.sh $(PACKAGES) --locked --profile ci
	@$(TIMED) random env SUTLER_RANDOM_SEEDS=200 cargo test --locked --profile ci -p sutler-parity random
	@$(TIMED) rules env SUTLER_SIM_SEARCH=1 SUTLER_SIM_SEEDS=20000 cargo test --locked --profile ci -p sutler-dst
	@$(TIMED) fuzz ./hack/fuzz.sh
	@$(TIMED) mutants ./hack/mutants.sh
	@$(TIMED) --summary

.PHONY: sim
sim: ## Runs one seed of the simulation with its whole log: make sim SEED=42
	@cargo run -q --locked --profile ci -p sutler-dst -- --seed $(or $(SEED),0)

.PHONY: sim-long
sim-long: ## Runs a million seeds of the simulation, or SEEDS of them from FROM
	@cargo run -q --locked --release -p sutler-dst -- --from $(or $(FROM),0) --count $(or $(SEEDS),1000000)

.PHONY: bench
bench: peers ## Speed beside the real pair, as ratios
	./hack/bench.sh

.PHONY: coverage
coverage: ## Line coverage of the fast tests, and whether it is as much as it should be
	./hack/coverage.sh
