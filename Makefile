# Every command of the project. `make help` lists them.

# Built programs, images and the target folder live in the user's cache, so that a fresh clone is fast.
SLIPWAY_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/slipway
export SLIPWAY_CACHE
export CARGO_TARGET_DIR ?= $(SLIPWAY_CACHE)/target

BUILT := $(CARGO_TARGET_DIR)/debug
TOOLS := $(SLIPWAY_CACHE)/tools
NEXTEST_VERSION := 0.9.143
DENY_VERSION := 0.20.2
NEXTEST := $(TOOLS)/cargo-nextest-$(NEXTEST_VERSION)/bin/cargo-nextest
DENY := $(TOOLS)/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
# Tools that only check are built unoptimised: they run for seconds, and are built faster.
INSTALL := env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=false cargo install --locked --debug
SCRIPTS := $(shell grep -rlE "^(\#!/bin/(ba)?sh|\# shellcheck shell)" images crates tests)
# What makes rustc tell the fuzzing engine where an input went; no nightly needed.
COVERAGE := $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ := crates/slurm/fuzz
FUZZ_HOST := $(shell rustc -vV | sed -n 's/^host: //p')
# Targets and the longest input of each.
FUZZ_TARGETS := hostlist:2048 config:4096 rest:16384
SECONDS ?= 30
RUNS ?= 5
MINUTES ?= 30
NAME ?= demo
NODES ?= 2

.DEFAULT_GOAL := help
.PHONY: checkout help demo up down status test test-unit flakes soak fuzz bench bench-parts lint lint-format lint-clippy lint-rest nextest format generate images build clean

help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## Bring up a real cluster and run a real Slurm job on it (KUBECONFIG_DEMO=... uses yours).
	@$(BUILT)/slipway-demo --name $(NAME)

up: build ## Bring up a bare bed: NAME=demo NODES=2.
	@$(BUILT)/slipway-bed up --name $(NAME) --nodes $(NODES)

down: ## Take the bed down: NAME=demo.
	@if [ -x $(BUILT)/slipway-bed ]; then $(BUILT)/slipway-bed down --name $(NAME); else echo "no bed was ever built here"; fi

status: ## Show the beds of this machine.
	@if [ -x $(BUILT)/slipway-bed ]; then $(BUILT)/slipway-bed status; else echo "no bed was ever built here"; fi

test: BEGAN := $(shell date +%s)
test: build ## Run everything: lints, unit tests, real API server, real clusters with real Slurm; SCENARIO=scaling runs one on a bed that stays up.
	@$(BUILT)/slipway-test --nextest $(NEXTEST) --began $(BEGAN) $(if $(SCENARIO),--scenario $(SCENARIO))

test-unit: checkout $(NEXTEST) ## Run the tests that need neither root nor a cluster.
	@$(NEXTEST) nextest run --workspace --locked --lib --bins

flakes: build ## Look for tests that fail now and then: RUNS=5 runs on real parts with half of every core taken away.
	@$(BUILT)/slipway-test --nextest $(NEXTEST) --flakes $(RUNS)

soak: build ## Run jobs for MINUTES=30 while everything around them is killed, frozen and changed; SEED=7 repeats a run.
	@$(BUILT)/slipway-test --nextest $(NEXTEST) --soak $(MINUTES) $(if $(SEED),--seed $(SEED))

fuzz: ## Look for inputs that break a reader, SECONDS=30 for each; what is found stays in crates/slurm/fuzz/found, and `make test` replays it.
	@CARGO_TARGET_DIR=$(SLIPWAY_CACHE)/target-fuzz RUSTFLAGS="-Cpasses=sancov-module $(COVERAGE)" \
		cargo build --release --target $(FUZZ_HOST) --manifest-path $(FUZZ)/Cargo.toml
	@for pair in $(FUZZ_TARGETS); do target=$${pair%:*}; \
		corpus=$(SLIPWAY_CACHE)/fuzz/$$target found=$(FUZZ)/found/$$target; \
		mkdir -p $$corpus $$found && echo "fuzzing $$target for $(SECONDS) s" && \
		if SEEDS=$$corpus $(SLIPWAY_CACHE)/target-fuzz/$(FUZZ_HOST)/release/$$target $$corpus -artifact_prefix=$$found/ \
			-max_total_time=$(SECONDS) -timeout=5 -rss_limit_mb=1024 -max_len=$${pair#*:} -print_final_stats=1 >$$corpus.log 2>&1; \
		then grep -E '^stat::(number|average|peak)' $$corpus.log; \
		else grep -vE '^#|^Recommended' $$corpus.log | tail -40; echo "an input that breaks $$target is in $$found"; exit 1; fi; \
	done

bench: checkout ## Measure the operator at size on a real API server: SCENARIO=churn WORKERS=1000 runs one; OPERATOR=path measures another program; OUT=folder keeps the figures.
	@cargo build --locked --profile load --package slipway-operator --package slipway-tests --package slipway-bed --bin slipway --bin slipway-bench --bin slipway-bed
	@$(CARGO_TARGET_DIR)/load/slipway-bench --operator $(or $(OPERATOR),$(CARGO_TARGET_DIR)/load/slipway) --out $(or $(OUT),$(CARGO_TARGET_DIR)) \
		$(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(WORKERS),--workers $(WORKERS))

bench-parts: ## Measure lists of hosts, snapshots of 10,000 nodes, passes, and plans for 10,000 workers, without a server.
	@cargo bench --locked --profile load --package slipway-slurm --bench hostlist
	@cargo bench --locked --profile load --package slipway-sim --bench snapshot
	@cargo bench --locked --profile load --package slipway-operator --bench controller
	@cargo bench --locked --profile load --package slipway-plan --bench nodeset

lint: lint-format lint-clippy lint-rest ## Check formatting, clippy, licences and dependencies, charts, shell scripts.

lint-format:
	@cargo fmt --all --check

lint-clippy: checkout
	@cargo clippy --workspace --all-targets --locked -- --deny warnings

lint-rest: build $(DENY) /usr/bin/shellcheck
	@$(DENY) --log-level error check bans licenses sources
	@$(BUILT)/slipway-bed helm lint --quiet charts/*
	@shellcheck .ci/run $(SCRIPTS)

nextest: $(NEXTEST)

format: ## Format the code.
	@cargo fmt --all

generate: build ## Write the generated files anew: CRDs and the operator's manifest.
	@$(BUILT)/slipway generate

images: build ## Build every image into the cache and list them.
	@$(BUILT)/slipway-bed images

build: checkout ## Build the programs.
	@cargo build --workspace --bins --locked

# All checkouts of a machine share the target folder. Cargo recognises our own crates by neither path nor content, only by the age of files, so what
# another checkout built is removed first.
checkout:
	@mkdir -p $(CARGO_TARGET_DIR)
	@if [ "$$(cat $(CARGO_TARGET_DIR)/checkout 2>/dev/null)" != "$(CURDIR)" ]; then \
		rm -rf $(CARGO_TARGET_DIR)/*/.fingerprint/slipway-*; echo "$(CURDIR)" >$(CARGO_TARGET_DIR)/checkout; fi

clean: down ## Take the bed down and remove the cache, the slow parts included.
	rm -rf "$(SLIPWAY_CACHE)"

/usr/bin/shellcheck:
	@echo "  ...  installing shellcheck"
	@apt-get update -qq && apt-get install -y -qq --no-install-recommends shellcheck >/dev/null

$(NEXTEST):
	@echo "  ...  building cargo-nextest $(NEXTEST_VERSION) (once per machine, 3 to 4 minutes)"
	@$(INSTALL) --no-default-features --features default-no-update --root $(TOOLS)/cargo-nextest-$(NEXTEST_VERSION) cargo-nextest@$(NEXTEST_VERSION)

$(DENY):
	@echo "  ...  building cargo-deny $(DENY_VERSION) (once per machine, 2 minutes)"
	@$(INSTALL) --root $(TOOLS)/cargo-deny-$(DENY_VERSION) cargo-deny@$(DENY_VERSION)
