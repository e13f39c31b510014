# The contributor's manual: every target is one task, and `make help` lists them.
#
# A fresh machine needs a Rust toolchain, Python >= 3.10 and make; everything else is installed here:
#
#   .tools/  uv, to create the first environment, only if the machine has none
#   .venv/   the Python environment, with the development tools (uv among them) and the built package
#   .venv-torch-*/   environments with other releases of torch, for `make test-torch-versions`
#   .venv-ports-*/   environments with two releases of the libraries of `make ports`
#   .venv-wheels/    the tools that build wheels, for `make wheels` and `make sdist`

PYTHON ?= python3
FUZZ_SECONDS ?= 600

# The releases of torch, besides the one in .venv, that capture is tested with: the oldest supported one, with the
# last numpy that it supports, and the newest.
OLDEST_TORCH := torch==2.1.2 numpy<2 setuptools<80
NEWEST_TORCH := torch==2.15.0 numpy

# One wheel per target serves every release of Python from 3.10 on, and systems with this glibc or a newer one. Zig
# links against the old glibc, so no container is needed. By default, the targets are those that Rust has installed.
WHEEL_GLIBC := manylinux_2_28
ALL_WHEEL_TARGETS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
WHEEL_TARGETS ?= $(notdir $(wildcard $(addprefix $(shell rustc --print sysroot)/lib/rustlib/,$(ALL_WHEEL_TARGETS))))

VENV := .venv
BIN := $(VENV)/bin
TOOLS_READY := $(VENV)/.tools-installed
# The package is built in two ways, for use (optimised) and for tests (checked), and .venv has one of them at a time:
# whoever installs one removes the mark of the other.
FOR_USE_READY := $(VENV)/.package-built-for-use
FOR_TESTS_READY := $(VENV)/.package-built-for-tests

UV := $(or $(shell command -v uv),.tools/bin/uv)

# Cargo decides what to recompile; this list only decides whether to run it.
SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates python -type f \
	\( -name '*.rs' -o -name 'Cargo.toml' -o -name '*.py' -o -name '*.pyi' \) -not -path '*/tests/*')

# The page of reports. crates/report embeds it if it is there.
PAGE := crates/report/page/index.html
PAGE_READY := web/node_modules/.ready
DEMO_PAGE := target/demo/report.html
PAGE_SOURCES := $(wildcard web/*.ts web/*.js web/*.html) $(shell find web/src -type f)

FUZZ_TARGETS := $(sort $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))))

# Every core, but no more memory than a laptop has: each process imports torch. The tests of a file share dumps, so one
# process runs them, in the order of tests/python/conftest.py.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# The Python that loads the extension module has its own symbols: link against no libpython, in the same way for
# maturin and for a plain `cargo test`, so that neither makes the other recompile pyo3.
export PYO3_BUILD_EXTENSION_MODULE := 1
export PYO3_PYTHON := $(abspath $(BIN)/python)

WITH_WHEEL_TOOLS := PATH="$(abspath .venv-wheels/bin):$$PATH" PYO3_PYTHON=$(abspath .venv-wheels/bin/python)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo web test test-fast test-rust test-python test-web test-torch-versions test-arm lint audit miri sanitize format bench bench-compare bench-capture bench-entries bench-faces bench-gpu bench-graph bench-page bench-perturb bench-scale bench-verdict faults fuzz wheels sdist check-packages clean bench-check bench-prove ports thresholds

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(FOR_USE_READY) ## Create .venv with the development tools and the built package

demo: setup ## Train a small model twice, once with a fault in one layer, and find it
	$(BIN)/python examples/demo.py

web: $(PAGE) ## Build the page of reports into one html file, which the package then contains (needs Node.js)

test: test-rust test-python ## Run every test (20 minutes on 2 cores, with what it builds and installs)

test-fast: $(FOR_TESTS_READY) ## Run the Python tests of the working loop: none that is slow, distributed, peer or gpu (5 minutes)
	$(PYTEST) -m 'not (slow or distributed or peer or gpu)'

test-rust: $(TOOLS_READY) $(if $(shell command -v npm),$(PAGE)) ## Run the Rust tests (with cargo nextest where it is installed)
	@if cargo nextest --version >/dev/null 2>&1; \
	then cargo nextest run --workspace --locked; \
	else cargo test --workspace --locked --quiet; fi

test-python: $(FOR_TESTS_READY) ## Run the Python tests
	$(PYTEST)

test-web: $(PAGE) $(DEMO_PAGE) ## Test the page of reports in Chromium, and make the picture of the README (4 minutes; needs Node.js and Chromium)
	cd web && npm run check && DEMO_PAGE=$(abspath $(DEMO_PAGE)) ULPSCOPE=$(abspath $(BIN)/ulpscope) npm test

test-torch-versions: $(FOR_TESTS_READY) .venv-torch-oldest/.ready .venv-torch-newest/.ready ## Test capture with the oldest and the newest torch (10 GB of disk)
	for release in oldest newest; do \
	  PYTHONPATH=python .venv-torch-$$release/bin/python -m pytest tests/python/capture/test_no_effect.py \
	    tests/python/capture/test_distributed.py tests/python/capture/test_compiled.py \
	    tests/python/capture/test_checkpoints.py || exit 1; \
	done

# ARM64 machines run these tests as they are. Others need the Rust target, a linker and an emulator; on Debian:
# rustup target add aarch64-unknown-linux-gnu; apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
ifneq ($(shell uname -m),aarch64)
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER ?= aarch64-linux-gnu-gcc
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER ?= qemu-aarch64-static -L /usr/aarch64-linux-gnu
endif
test-arm: ## Run the tests of numbers and files for ARM64, under an emulator on other machines
	cargo test --target aarch64-unknown-linux-gnu --locked --package ulpscope-tensor --package ulpscope-kernels \
	  --package ulpscope-formats

lint: $(FOR_TESTS_READY) ## Check format, lints, types, the stub, the API page, the direction of dependencies, and that tests share a build
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest ulpscope._core
	$(BIN)/python scripts/check_dependencies
	$(BIN)/python scripts/check_shared_build
	$(BIN)/python scripts/api_page --check

audit: ## Check licences, sources and known advisories of the dependencies; needs cargo-deny and a network
	cargo deny --locked check

miri: ## Run the tests of the crates without system calls under Miri; needs nightly Rust with the component miri
	cargo +nightly miri test --package ulpscope-tensor

sanitize: ## Run the tests of the crates with unsafe code under AddressSanitizer; needs nightly Rust
	RUSTFLAGS=-Zsanitizer=address cargo +nightly test --target x86_64-unknown-linux-gnu --target-dir target/sanitize \
	  --package ulpscope-kernels --package ulpscope-formats --package ulpscope-dump --locked

format: $(TOOLS_READY) ## Put every file into the common format, and make docs/api.md
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python scripts/api_page

bench: setup ## Measure the kernels against the machine's own read bandwidth, and calls against torch
	cargo bench --package ulpscope-kernels --bench kernels --locked
	ONEDNN_MAX_CPU_ISA=AVX512_CORE $(BIN)/python benches/python_calls.py

bench-compare: setup ## Compare the same dumps with mindstudio-probe from PyPI (7 GB of disk, some minutes)
	$(BIN)/python benches/compare.py target/bench-compare

bench-capture: setup ## Measure what capture costs, against mindstudio-probe from PyPI (half an hour)
	$(BIN)/python benches/capture.py target/bench-capture

bench-check: setup ## Replay every call of two models, healthy and with five wrong kernels (a minute)
	ONEDNN_MAX_CPU_ISA=AVX512_CORE $(BIN)/python benches/check.py target/bench-check

bench-entries: ## Compare two dumps of 5 million entries of statistics (10 GB of disk, some minutes)
	cargo build --release --package ulpscope-cli --locked
	python3 benches/many_entries.py target/bench-entries --ulpscope target/release/ulpscope

bench-faces: setup ## Measure the faces of older tools by the formulas of their guides (some minutes)
	$(BIN)/python benches/faces.py

bench-gpu: setup ## Measure what capture costs on a GPU, beside torch's DebugMode (needs a GPU; some minutes)
	$(BIN)/python benches/gpu/step_cost.py

bench-graph: ## Measure how long a graph of 500 MB takes to open, and how much memory (a minute)
	cargo build --release --package ulpscope-cli --locked
	python3 benches/graph.py --ulpscope target/release/ulpscope

bench-page: $(PAGE) ## Measure how soon ulpscope view shows a result of a million rows (a minute)
	cargo build --release --package ulpscope-cli --locked
	python3 benches/page.py target/bench-page --ulpscope target/release/ulpscope

bench-perturb: setup ## Measure what perturbing every call costs, as a multiple of a plain step (some minutes)
	ONEDNN_MAX_CPU_ISA=AVX512_CORE $(BIN)/python benches/perturb.py

bench-prove: setup ## Measure what compare --prove costs, as a multiple of the comparison (some minutes)
	$(BIN)/python benches/prove.py target/bench-prove

bench-scale: setup ## Measure what --engine ray costs, on a cluster of two nodes on this machine (70 GB of disk, half an hour)
	$(BIN)/python benches/scale.py target/bench-scale

bench-verdict: ## Measure what judging calls costs, as a share of the comparison (some minutes)
	cargo bench --package ulpscope-compare --bench verdict --locked

faults: setup ## Plant faults in small models; who finds them? (half an hour; ALL=1: every case, some hours)
	mkdir -p target
	$(BIN)/python -m faults $(if $(ALL),--all) \
	  --json target/faults.json --markdown target/faults.md

ports: setup .venv-ports-new/.ready .venv-ports-old/.ready ## Compare real ports, healthy and with bugs, with libraries from PyPI (a quarter of an hour, 5 GB of disk; HELD_OUT=1: the cases kept for the end; UNSEEN=1: those that nobody has seen results of)
	mkdir -p target
	$(BIN)/python -m ports $(if $(UNSEEN),--unseen,$(if $(HELD_OUT),--held-out)) --json target/ports.json --markdown target/ports.md

thresholds: setup .venv-ports-new/.ready .venv-ports-old/.ready ## Show what half and twice of each threshold of the verdicts does to the suites (an hour; EVERY=1: all ports, many hours)
	mkdir -p target
	cargo build --package ulpscope-cli --features scaled-thresholds --locked
	$(BIN)/python -m ports.thresholds $(if $(EVERY),--every $(EVERY)) --keep target/ports-dumps --markdown target/thresholds.md

fuzz: ## Run every fuzz target for FUZZ_SECONDS (600) each; needs nightly Rust and cargo-fuzz
	@for target in $(FUZZ_TARGETS); do \
	  echo "fuzz $$target for $(FUZZ_SECONDS) s"; \
	  cargo +nightly fuzz run $$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 || exit 1; \
	done

wheels: .venv-wheels/.ready $(PAGE) ## Build the wheels into dist/, for x86-64 and, where Rust has the target, ARM64
	@rm -f dist/*.whl
	@for target in $(filter-out $(WHEEL_TARGETS),$(ALL_WHEEL_TARGETS)); do \
	  echo "no wheel for $$target: rustup target add $$target, or name it in WHEEL_TARGETS"; \
	done
	for target in $(WHEEL_TARGETS); do \
	  $(WITH_WHEEL_TOOLS) maturin build --release --locked --zig --compatibility $(WHEEL_GLIBC) \
	    --target $$target --out dist || exit 1; \
	done

sdist: .venv-wheels/.ready $(PAGE) ## Build the source distribution into dist/
	@rm -f dist/*.tar.gz
	$(WITH_WHEEL_TOOLS) maturin sdist --out dist

check-packages: ## Install each package of dist/ that runs here into an empty environment, and use it
	$(PYTHON) scripts/check_packages dist

clean: ## Remove everything that was built
	cargo clean
	rm -rf $(VENV) .venv-torch-* .venv-ports-* .venv-wheels .tools dist fuzz/target python/ulpscope/_core*.so web/node_modules crates/report/page

$(PAGE_READY): web/package.json web/package-lock.json
	@node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)' 2>/dev/null \
	  && command -v npm >/dev/null \
	  || { echo "the page of reports is built with Node.js 20.19 or newer and npm: install both, then run make web again" >&2; exit 1; }
	cd web && npm ci --no-audit --no-fund
	@touch $@

# The package must contain the page before the demo writes one.
$(DEMO_PAGE): $(PAGE) examples/demo.py $(FOR_TESTS_READY)
	mkdir -p $(dir $@)
	$(BIN)/python examples/demo.py $(dir $@)

$(PAGE): $(PAGE_READY) $(PAGE_SOURCES)
	cd web && npm run build

.tools/bin/uv:
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet "$$(grep '^uv==' requirements-dev.txt)"

$(TOOLS_READY): requirements-dev.txt requirements-integrations.txt requirements-ray.txt | $(filter .tools/%,$(UV))
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	$(UV) pip install --quiet --python $(BIN)/python -r requirements-dev.txt -r requirements-integrations.txt \
	  -r requirements-ray.txt
	@touch $@

# Torch 2.1 supports Python up to 3.11. Recipes quote, since `<` is a redirection in the shell.
.venv-torch-oldest/.ready .venv-torch-newest/.ready: .venv-torch-%/.ready: | $(filter .tools/%,$(UV))
	$(UV) venv --quiet --allow-existing --python 3.11 .venv-torch-$*
	$(UV) pip install --quiet --python .venv-torch-$*/bin/python pytest \
	  $(if $(filter oldest,$*),$(foreach one,$(OLDEST_TORCH),'$(one)'),$(foreach one,$(NEWEST_TORCH),'$(one)'))
	@touch $@

.venv-ports-new/.ready .venv-ports-old/.ready: .venv-ports-%/.ready: requirements-ports-%.txt | $(filter .tools/%,$(UV))
	$(UV) venv --quiet --allow-existing --python 3.11 .venv-ports-$*
	$(UV) pip install --quiet --python .venv-ports-$*/bin/python -r requirements-ports-$*.txt
	@touch $@

.venv-wheels/.ready: requirements-wheels.txt requirements-dev.txt | $(filter .tools/%,$(UV))
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-wheels
	$(UV) pip install --quiet --python .venv-wheels/bin/python -r requirements-wheels.txt
	@touch $@

# Without Node.js the package is built without the page, and says so where a page is asked for.
$(FOR_USE_READY) $(FOR_TESTS_READY): $(TOOLS_READY) $(SOURCES) $(if $(shell command -v npm),$(PAGE))
	@rm -f $(FOR_USE_READY) $(FOR_TESTS_READY)
	PATH="$(abspath $(BIN)):$$PATH" VIRTUAL_ENV=$(abspath $(VENV)) \
	  $(BIN)/maturin develop $(if $(filter $(FOR_USE_READY),$@),--release) --uv --quiet --locked
	@touch $@
