# The same commands that CI runs. `make check` is for every change, `make ci` before it lands.
PYTHON ?= .venv/bin/python
BIN := $(dir $(PYTHON))

.PHONY: check test ci site build sbom lowest newest

check: ## under two minutes: style, types, layers, and the tests of the core
	$(BIN)ruff check .
	$(BIN)ruff format --check .
	$(BIN)mypy
	$(BIN)lint-imports
	$(PYTHON) -m pytest -n 2 tests/core tests/policies/test_policies.py tests/runtime/test_settings.py tests/test_tools.py \
	  tests/test_prices.py tests/docs/test_documents.py tests/release/test_structure.py

test: ## all tests that need no environment of their own
	$(PYTHON) -m pytest -n 2 --dist loadfile

ci: ## everything that must hold before a change lands
	bash .ci/run

site: ## the documentation, as strictly as CI builds it
	mkdocs build --strict

build: ## wheel and sdist of all three distributions, built twice to the same bytes
	$(PYTHON) .ci/build.py dist

sbom: build ## what the wheel and its extras install, as CycloneDX, valid by its schema; needs .github/release-requirements.txt
	$(PYTHON) .ci/sbom.py dist/camdf.cdx.json

lowest newest: ## the tests of every extra with the oldest versions that it allows, or with the newest; EXTRAS="train serve"
	.ci/versions $@ $(EXTRAS)
