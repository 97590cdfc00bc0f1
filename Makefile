# Thin front door: every target is one or two commands of CMake or of scripts/. Start with `make help`.

JOBS ?= $(shell nproc)
# Tests of real time sleep more than they compute: with one a core, processors idle for most of a run.
TEST_JOBS ?= $(shell expr 2 '*' $(JOBS))
FUZZ_SECONDS ?= 60
ABUSE_SECONDS ?= 3600
# Most requests that schemathesis makes up for one operation of the interface.
OPENAPI_EXAMPLES ?= 100
# Processor that the tarball is for.
ARCH ?= x86_64
SLURM_KILLS ?= 50
DEMO = build/flyball plan examples/profiles/gpt3-1.3b-a100-4stage.csv --microbatches 128 --planner all --out out/demo
PEERS = bench/peers/run
STEP = @scripts/step
# The folders of tests/ whose own process has several threads; what other folders start is checked under asan.
THREADED = agent client driver fleet measure net server sim
$(foreach folder,$(THREADED),$(if $(wildcard tests/$(folder)),,$(error THREADED names tests/$(folder), which is not there)))
PIP = build/python-venv/bin/pip --disable-pip-version-check
# With warnings as errors, as the presets have it: only then are the compiler's command lines the same.
WHEEL_SETTINGS = --config-settings build-dir=build-python --config-settings cmake.define.FLYBALL_WARNINGS_AS_ERRORS=ON
# Clones share what ccache holds: paths of the tree count relative to it.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.DEFAULT_GOAL := help
.PHONY: help setup build test way-in python demo slurm-demo slurm-build slurm slurm-kills slurm-trace \
  tarball portable-wheels check-tarball bench peers paper-tables real-runs measured-tables \
  promise-worlds discrete-bound lint format asan tsan fuzz openapi-fuzz abuse frameworks \
  monitoring page page-setup page-goals sdist sim-wheel others check-wheel deb check-deb site clean
MAKEFLAGS += --no-print-directory

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: ## install the Debian packages that are missing
	@scripts/setup build test

build: setup ## build the program: build/flyball
	$(STEP) "Configure build/" build/logs/configure.log cmake --preset release
	$(STEP) "Build build/flyball" build/logs/build.log cmake --build build -j $(JOBS) --target flyball

test: setup python ## build everything and run all tests
	$(STEP) "Configure build/" build/logs/configure.log cmake --preset release
	$(STEP) "Build the program and the tests" build/logs/build.log cmake --build build -j $(JOBS)
	$(STEP) "Run the tests" build/logs/test.log scripts/run_tests build -j $(TEST_JOBS)
	@sed -n '/tests passed/,$$p' build/logs/test.log

way-in: build ## add the examples of CONTRIBUTING.md to a copy of the tree, build it and use them
	$(STEP) "Add the examples of CONTRIBUTING.md to a copy" build/logs/way-in.log env JOBS=$(JOBS) scripts/check_way_in

# ccache gives the program's build what was compiled here, and the other way round, where command lines agree: one name
# of the compiler (Python would give another), and a folder that is as deep in the tree as build/.
python: setup ## build the Python package and install it into build/python-venv
	@scripts/python_env python tests/python/requirements.txt || \
	  { [ -z "$$CI" ] && echo "python: going on without it; tests that need other people's packages will be skipped"; }
	@if [ -d build/python-venv ]; then scripts/step "Build and install the Python package" build/logs/wheel.log \
	  env CXX=c++ $(PIP) install --no-build-isolation --no-deps --force-reinstall \
	  $(WHEEL_SETTINGS) . ; fi

sdist: python ## the Python package's sources in build/dist
	$(STEP) "Build build/dist" build/logs/dist.log sh -c 'rm -rf build/dist && mkdir -p build/dist && \
	  PYTHONPATH=python/build_backend build/python-venv/bin/python -c \
	    "import flyball_build; flyball_build.build_sdist(\"build/dist\")"'

sim-wheel: setup ## build the wheel flyball-sim, simulated GPUs alone, into build/dist (needs PyPI)
	$(STEP) "Configure build/" build/logs/configure.log cmake --preset release
	$(STEP) "Build the program and the libraries of simulated GPUs" build/logs/sim-build.log \
	  cmake --build build -j $(JOBS) --target flyball_sim_program
	@scripts/sim_wheel

others: sim-wheel ## run nvitop, gpustat, CodeCarbon, Zeus and others on the simulated GPUs of that wheel (needs PyPI)
	@scripts/python_env others tests/others/requirements.txt
	@build/others-venv/bin/pip install --disable-pip-version-check -q --no-deps --force-reinstall build/dist/flyball_sim-*.whl
	@build/others-venv/bin/python -B tests/others/others_test.py --command build/others-venv/bin/flyball-sim --verbose

check-wheel: setup ## build the Python wheels and use them in clean environments without a compiler (needs PyPI)
	@scripts/check_wheel

demo: build ## plan GPT-3 1.3B, then run the closed loop on simulated GPUs; see out/demo/
	$(DEMO)
	$(STEP) "Build the training client and the trainer" build/logs/trainer.log \
	  cmake --build build -j $(JOBS) --target flyball_shared pipeline_trainer
	scripts/demo_loop --out out/demo/loop

slurm-demo: build python ## a Slurm of four nodes with simulated GPUs on this machine, and a few jobs (installs Debian's Slurm)
	@scripts/slurm_demo

slurm-build: setup
	@scripts/setup slurm
	$(STEP) "Configure build/" build/logs/configure.log cmake --preset release
	$(STEP) "Build the plugin and what the nodes run" build/logs/slurm-build.log cmake --build build -j $(JOBS) \
	  --target flyball flyball_nvidia_ml flyball_cuda flyball_shared pipeline_trainer flyball_spank

slurm: slurm-build python ## test the plugin, jobs of all kinds and the controller on a real Slurm (installs Debian's Slurm)
	@tests/slurm/slurm_test.py
	@tests/slurm/controller_test.py
	@tests/slurm/shrink_test.py
	@tests/slurm/pipeline_test.py
	@tests/slurm/nodes_off_test.py
	@tests/slurm/partition_test.py
	@tests/slurm/forgotten_test.py
	@scripts/setup page
	@scripts/python_env page tests/page/requirements.txt
	@build/page-venv/bin/python tests/slurm/page_test.py

slurm-kills: slurm ## the same while controller, agents and Slurm's daemons are killed, SLURM_KILLS (default 50) times each
	@tests/slurm/kills_test.py --kills $(SLURM_KILLS)

slurm-trace: slurm-build ## 40 jobs on a real Slurm under four policies, beside the simulator (45 minutes; docs/performance.md)
	@bench/slurm_trace.py

tarball: ## build/flyball-VERSION-linux-ARCH.tar.gz for any Linux with glibc 2.28 (ARCH=aarch64 for arm64)
	@scripts/setup portable
	@JOBS=$(JOBS) scripts/portable $(ARCH)

portable-wheels: tarball ## wheels for any Linux with glibc 2.28, in build/wheels/portable, tried in clean environments (needs PyPI)
	@scripts/check_wheel --portable

check-tarball: tarball build ## try it in a clean Debian 11, beside the program that is built here (needs root)
	@scripts/setup package-test
	@tests/tarball/tarball_test.py --against build/flyball build/flyball-*-linux-$(ARCH).tar.gz

bench: ## build and run the benchmarks
	@scripts/setup build bench
	$(STEP) "Configure build/bench/" build/logs/bench-configure.log cmake --preset bench
	$(STEP) "Build the benchmarks" build/logs/bench-build.log cmake --build build/bench -j $(JOBS)
	@scripts/bench build/bench/bench

peers: build ## compare with the published solvers (downloads them from PyPI)
	@scripts/setup bench
	$(PEERS)

paper-tables: build ## compute the papers' tables again into docs/paper-tables.md and docs/forecast-tables.md; published trainings into docs/forecast-estimates.md
	@python3 bench/paper_tables.py --program build/flyball --write docs/paper-tables.md
	@python3 bench/forecast_tables.py --program build/flyball --write docs/forecast-tables.md
	@python3 bench/estimate_tables.py --program build/flyball --write docs/forecast-estimates.md

real-runs: build ## predict others' measured runs again into docs/real-runs.md (needs FLYBALL_SHARED_DATA or ../shared/data)
	@python3 bench/real_runs.py --program build/flyball --write docs/real-runs.md

discrete-bound: build ## how close any plan of measured clocks comes to the bound (HiGHS from PyPI; needs them, too)
	@scripts/python_env peers bench/peers/requirements.txt
	@build/peers-venv/bin/python bench/peers/discrete_bound.py --microbatches 12 --seconds 1200 \
	  $${FLYBALL_SHARED_DATA:-../shared/data}/perseus-sosp24/emulation/*_bf16.csv

promise-worlds: ## what plans promise and trainings by them do, on simulated boards that are not ideal
	@scripts/setup build bench
	$(STEP) "Configure build/bench/" build/logs/bench-configure.log cmake --preset bench
	$(STEP) "Build the benchmark" build/logs/promise-worlds.log \
	  cmake --build build/bench -j $(JOBS) --target promise_worlds
	@build/bench/bench/promise_worlds --seeds 5

measured-tables: build ## the papers' tables from their authors' measurements, into docs/measured-tables.md (needs them, too)
	@python3 bench/measured_tables.py --program build/flyball --write docs/measured-tables.md

lint: ## check formatting, clang-tidy, layers, files, copies and scripts
	@scripts/setup build test lint bench
	@scripts/lint

format: ## format all tracked C++ files in place
	@scripts/setup lint
	@git ls-files -z '*.h' '*.cpp' | xargs -0 -r clang-format -i

asan: ## run all tests under the address and undefined-behaviour sanitizers
	@scripts/setup build test fuzz
	$(STEP) "Configure build/asan-ubsan/" build/logs/asan-configure.log cmake --preset asan-ubsan
	$(STEP) "Build with sanitizers" build/logs/asan-build.log cmake --build build/asan-ubsan -j $(JOBS)
	$(STEP) "Run the tests with sanitizers" build/logs/asan-test.log \
	  scripts/run_tests build/asan-ubsan -j $(TEST_JOBS)
	@sed -n '/tests passed/,$$p' build/logs/asan-test.log

tsan: ## run the tests of everything with threads under the thread sanitizer
	@scripts/setup build test
	$(STEP) "Configure build/tsan/" build/logs/tsan-configure.log cmake --preset tsan
	$(STEP) "Build with the thread sanitizer" build/logs/tsan-build.log cmake --build build/tsan -j $(JOBS) \
	  --target $(THREADED:%=flyball_%_test)
	$(STEP) "Run the tests with the thread sanitizer" build/logs/tsan-test.log \
	  scripts/run_tests build/tsan -j $(TEST_JOBS) -R '^($(shell echo $(THREADED) | tr ' ' '|'))[.]'
	@sed -n '/tests passed/,$$p' build/logs/tsan-test.log

fuzz: ## fuzz every reader for FUZZ_SECONDS (default 60) each
	@scripts/setup build test fuzz
	$(STEP) "Configure build/asan-ubsan/" build/logs/fuzz-configure.log cmake --preset asan-ubsan
	$(STEP) "Build the fuzz targets" build/logs/fuzz-build.log cmake --build build/asan-ubsan -j $(JOBS) --target fuzz/all
	@FUZZ_SECONDS=$(FUZZ_SECONDS) JOBS=$(JOBS) scripts/fuzz build/asan-ubsan/fuzz

openapi-fuzz: build ## send server and agent what their OpenAPI documents allow and forbid (schemathesis, from PyPI)
	$(STEP) "Build the simulated GPUs" build/logs/sim.log cmake --build build -j $(JOBS) --target flyball_nvidia_ml
	$(STEP) "Send requests made from the OpenAPI documents" build/logs/openapi-fuzz.log \
	  scripts/openapi_fuzz --examples $(OPENAPI_EXAMPLES)
	@grep -E 'generated|registered|granted' build/logs/openapi-fuzz.log

abuse: build ## an hour of hostile clients, kills, full disks and hung drivers while honest jobs run (ABUSE_SECONDS)
	$(STEP) "Build the trainer and the simulated GPUs" build/logs/trainer.log \
	  cmake --build build -j $(JOBS) --target flyball_nvidia_ml pipeline_trainer wall_clock_stub
	@tests/abuse/session.py --seconds $(ABUSE_SECONDS) --every 10 --judge-speed

frameworks: build ## train with PyTorch's, DeepSpeed's and Megatron's own pipelines (6 GB from PyPI in build/frameworks-venv)
	$(STEP) "Build the simulated GPUs" build/logs/sim.log cmake --build build -j $(JOBS) --target flyball_nvidia_ml
	@scripts/frameworks $(PARTS)

monitoring: build ## check the rules and boards of packaging/ on a real Prometheus (installs Debian's)
	@scripts/setup monitoring
	$(STEP) "Build the simulated GPUs and the trainer" build/logs/monitoring-build.log \
	  cmake --build build -j $(JOBS) --target flyball_nvidia_ml flyball_cuda flyball_shared pipeline_trainer
	@scripts/python_env monitoring tests/monitoring/requirements.txt
	@build/monitoring-venv/bin/python tests/monitoring/monitoring_test.py

page-setup: build
	@scripts/setup page
	$(STEP) "Build the simulated GPUs and the trainer" build/logs/page-build.log \
	  cmake --build build -j $(JOBS) --target flyball_nvidia_ml flyball_cuda flyball_shared pipeline_trainer
	@scripts/python_env page tests/page/requirements.txt

page: page-setup ## try the planning server's page, and all reports, in a real Chromium (installs Debian's)
	@build/page-venv/bin/python tests/page/footprint_test.py
	@build/page-venv/bin/python tests/page/report_test.py
	@build/page-venv/bin/python tests/page/time_charts_test.py
	@build/page-venv/bin/python tests/page/page_test.py

page-goals: page-setup ## judge time and memory of server, page and reports by their goals, on a machine that does nothing else
	@FLYBALL_JUDGE_GOALS=1 build/page-venv/bin/python tests/page/report_test.py large
	@FLYBALL_JUDGE_GOALS=1 build/page-venv/bin/python tests/page/page_test.py paints what_if slow_pipeline
	@build/page-venv/bin/python bench/fleet_load.py --page --judge

site: build ## the manual as a site, all links checked: build/site/index.html (MkDocs from PyPI)
	@scripts/python_env site scripts/site-requirements.txt
	$(STEP) "Build build/site" build/logs/site.log env NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build --strict
	@echo "site: build/site/index.html; with search: python3 -m http.server --directory build/site --bind 127.0.0.1 8000"

deb: ## build the Debian packages, for the Debian that this runs on, in build/deb/
	@scripts/setup build package
	$(STEP) "Build the Debian packages" build/logs/deb.log scripts/build_deb

check-deb: ## build the packages in clean systems of Debian 12 and 13; install, upgrade, purge them (needs root)
	@scripts/setup package-test
	@scripts/check_deb

clean: ## remove everything that was built
	rm -rf build build-python* out
