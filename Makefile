# Each target brings up what it needs: a virtual environment, the pinned packages, tmux.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WEB    := $(VENV)/.ready-web
DOCS   := $(VENV)/.ready-docs
SEED   ?= $(shell date +%s)
# More than there are cores: most of the time a test waits for the programs it has started.
WORKERS := -n 6 --dist worksteal

# What pytest makes of a test file is kept: to make it anew takes ten seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help: ## Show what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

demo: $(READY) tmux ## Run the whole loop once with the built-in agent, without an account
	@$(BIN)/cao demo

test: $(READY) tmux bubblewrap ## Run the tests, in less than five minutes
	@$(BIN)/python -m tests.prepare
	$(BIN)/python -m pytest -m "not agents and not slow and not web" $(WORKERS)

test-slow: $(READY) tmux bubblewrap shells ## Run the tests that take longest: cheats, kills, work trees, checkouts
	@$(BIN)/python -m tests.prepare
	$(BIN)/python -m pytest -m slow $(WORKERS)

# Only what is named on the command line: inside of tmux there is a TMUX in the environment, too.
ifeq ($(origin TMUX),command line)
OTHER_TMUX := $(TMUX)
endif
ifeq ($(origin PYTHON),command line)
OTHER_PYTHON := $(PYTHON)
endif

test-tmux: $(READY) tmux ## Run the tests that use tmux with TMUX=/path/to/tmux, or a second version
	@sh scripts/with-tmux.sh "$(OTHER_TMUX)" \
		$(BIN)/python -m pytest -m "tmux and not agents and not web" $(WORKERS)

test-python: ## Run the tests that need no tmux with PYTHON=python3.14, or the newest that is there
	@sh scripts/with-python.sh "$(OTHER_PYTHON)" -m pytest -m "not tmux and not agents and not web" $(WORKERS)

test-web: $(WEB) tmux chromium axe ## Look at the page in a real browser, while real runs are under way
	$(BIN)/python -m pytest -m web -n 2 --dist worksteal tests/web

search: $(READY) ## Look for examples that break a property: new ones each time, or those of SEED=...
	$(BIN)/python -m pytest -m hypothesis -n 4 --hypothesis-profile search --hypothesis-seed $(SEED)

test-agents: agents ## Drive real Codex, Claude Code and others (from npm) against stub models
	$(BIN)/python -m pytest -m agents -n 4 --dist loadgroup tests/agents

test-agents-newest: $(READY) tmux node ## Try what the registries call newest; writes .cache/newest/report.md
	$(BIN)/python -m tests.agents.newest $(NEWEST) -n 4 --dist worksteal

accuracy: agents ## Measure how accurate the status is, on the same agents (an hour and a half); writes docs/accuracy.md
	$(BIN)/python -m tests.agents.accuracy

check: $(READY) ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/plain_english.py

messages: $(READY) ## List every message that users read, in tests/contract/messages.txt
	$(BIN)/python scripts/messages.py > tests/contract/messages.txt

openapi: $(READY) ## Write the OpenAPI document that the server sends
	$(BIN)/python scripts/openapi.py > src/cli_agent_orchestrator/server/openapi.json

docs: $(DOCS) ## Build the documentation as a site, without the network, and check its links
	@sh scripts/build-docs.sh $(BIN)/python

pictures: $(WEB) tmux chromium ## Make the pictures of the documentation, from real runs
	$(BIN)/python -m tests.web.pictures

bench: $(READY) tmux ## Measure against the baseline in the same run; prints a table, writes JSON
	$(BIN)/python -m bench

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

agents: $(READY) tmux node
	@$(BIN)/python -m tests.agents.installs

tmux: ## Install tmux if it is missing
	@sh scripts/need-tmux.sh

bubblewrap: ## Install bubblewrap, for gates in a sandbox, if it is missing and can be had
	@sh scripts/need-bubblewrap.sh

shells: ## Install zsh and fish, for completion, if they are missing and can be had
	@sh scripts/need-shells.sh

node: ## Install Node.js and npm if they are missing
	@sh scripts/need-node.sh

chromium: ## Install Chromium if no browser of its kind is there
	@sh scripts/need-chromium.sh

axe: node
	@sh scripts/need-axe.sh .cache/web

$(READY): pyproject.toml constraints.txt scripts/make-venv.sh
	@sh scripts/make-venv.sh $(PYTHON) $(VENV)
	@touch $@

$(WEB): $(READY)
	@sh scripts/make-venv.sh $(PYTHON) $(VENV) dev,web
	@touch $@

$(DOCS): $(READY)
	@sh scripts/make-venv.sh $(PYTHON) $(VENV) dev,docs
	@touch $@

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .cache site .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: help demo test test-slow test-tmux test-python test-web search test-agents test-agents-newest accuracy check messages openapi docs pictures bench format agents tmux bubblewrap shells node chromium axe clean
