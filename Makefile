# Everything a developer does, from a clean clone: `make test`. See CONTRIBUTING.md.

VENV   := .venv
OLDEST := .venvs/pyspark-4.0
DUCKDB2 := .venvs/duckdb-2
PEERS   := .venvs/peers
BIN    := $(VENV)/bin
# More arguments for pytest or for a script, as in: make test ARGS='-k oracle'
ARGS   ?=
# How many processes run the tests, each with a Spark session, an oracle and servers of its own; 0 is none but pytest's.
JOBS   ?= 2
# Python workers of Spark must be the Python of the driver.
SPARK_ENV = JAVA_HOME="$$(scripts/java)" PYSPARK_PYTHON="$(abspath $(1))/bin/python"
PYTEST    = $(call SPARK_ENV,$(1)) $(1)/bin/python -m pytest
# Tests start hundreds of Python processes: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# One file, one process, which shares its lakes; tests/schedule.py says which.
BY_FILE   = --dist loadfile --no-loadscope-reorder
# pytest's 5 means that there was nothing to run.
OR_NONE   = || [ $$? -eq 5 ]

.DEFAULT_GOAL := help
S3_JARS := build/s3-jars
STORES := build/stores

.PHONY: test-stores bench-anywhere venv-oldest try-airflow try-dbt s3-jars test-s3 browser lock release test-fast test-docs docs-release docs-serve bench-add-files bench-duckdb bench-first bench-growth bench-maintenance bench-native bench-peers bench-rows bench-read bench-write help venv java servers demo test test-deep test-oldest test-duckdb2 test-duckdb2-quick lint format types docs bench-catalog bench-commits clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  make %-14s %s\n' "$$name" "$$text"; done

venv: $(VENV)/.stamp ## Make .venv with the package and its development tools
	@:

$(VENV)/.stamp: pyproject.toml requirements-dev.lock
	@scripts/venv $(VENV) dev,docs

$(OLDEST)/.stamp: pyproject.toml requirements-dev.lock
	@scripts/venv $(OLDEST) dev 'pyspark==4.0.2'

venv-oldest: $(OLDEST)/.stamp ## Make .venvs/pyspark-4.0 with the oldest PySpark
	@:

$(DUCKDB2)/.stamp: $(VENV)/.stamp
	@scripts/venv-duckdb $(DUCKDB2) $(VENV) '==2.0.*'

java: ## Find Java 17 or 21, or install it
	@scripts/java >/dev/null

servers: ## Install PostgreSQL and MariaDB for the tests, where that is possible
	@scripts/servers

browser: ## Install Chromium for the tests of the explorer, where that is possible
	@scripts/browser

s3-jars: venv ## Fetch the jars with which Spark reaches S3, for the tests and the demo
	@scripts/s3-jars $(BIN)/python $(S3_JARS)

demo: venv java $(if $(findstring --s3,$(ARGS)),s3-jars) ## Run examples/demo.py
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python examples/demo.py $(ARGS)

test: venv java servers browser ## Run all tests and examples on the newest PySpark
	$(call PYTEST,$(VENV)) -n $(JOBS) $(BY_FILE) --ignore tests/test_docs.py --ignore tests/s3 --ignore tests/stores $(ARGS)
	@$(MAKE) --no-print-directory -j 2 test-s3 test-docs

# In a process of its own, beside that of the examples: Spark must know the jars when it starts.
test-s3: venv java s3-jars ## Run the tests on S3, played by a server on this machine
	$(call PYTEST,$(VENV)) tests/s3 $(ARGS) $(OR_NONE)

test-stores: venv java ## Run the tests on Azure and HDFS, played by servers on this machine
	@scripts/store-servers $(BIN)/python $(STORES)
	$(call PYTEST,$(VENV)) tests/stores $(ARGS) $(OR_NONE)

test-fast: venv ## Run the tests that need neither Spark nor servers, in about a minute
	$(call PYTEST,$(VENV)) -n $(JOBS) -m 'not spark' -k 'not postgres and not mysql' \
		tests/format tests/catalog tests/cli tests/sql $(ARGS)

test-deep: venv java servers browser ## Run all tests with many more generated examples
	DUCKLAKE_SPARK_TEST_DEEP=1 $(call PYTEST,$(VENV)) --timeout 3600 $(ARGS)

# The catalog database makes no difference to Spark, so on the oldest one those in a DuckDB file are enough; files with
# variants and geometries it cannot open at all.
OLDEST_TESTS := tests/scan tests/sql/test_queries.py tests/sql/test_dml.py tests/spark/test_native_reads.py tests/spark/test_native_writes.py tests/spark/test_native_functions.py tests/spark/test_native_answered.py tests/spark/test_native_statistics.py tests/spark/test_format.py tests/write/test_values.py tests/write/test_types.py tests/interop/test_views.py \
  $(addprefix tests/interop/test_,scan_rows.py scan_types.py scan_evolution.py insert_twins.py rowlevel_twins.py)
test-oldest: $(OLDEST)/.stamp java ## Run the Spark tests on the oldest PySpark
	$(call PYTEST,$(OLDEST)) -n $(JOBS) $(BY_FILE) -m spark -k 'not sqlite and not postgres and not mysql' $(OLDEST_TESTS) $(ARGS) $(OR_NONE)

# DuckDB as our library: catalog files, encoders, casts. The extension exists for 1.5 only, and runs in a process of its own.
DUCKDB2_TESTS := tests/format $(addprefix tests/catalog/test_,create.py duckdb_releases.py file_locks.py format_1_1.py) \
  $(addprefix tests/write/test_,types.py values.py inlined_changes.py) $(addprefix tests/interop/test_,insert_twins.py scan_types.py)
test-duckdb2: $(DUCKDB2)/.stamp java ## Run the tests of what DuckDB does for us on DuckDB 2
	DUCKLAKE_SPARK_ORACLE_PYTHON="$(abspath $(VENV))/bin/python" $(call PYTEST,$(DUCKDB2)) -n $(JOBS) $(BY_FILE) \
		-k 'not postgres and not mysql' $(DUCKDB2_TESTS) $(ARGS) $(OR_NONE)

DUCKDB2_QUICK := $(addprefix tests/catalog/test_,create.py duckdb_releases.py format_1_1.py) tests/write/test_inlined_changes.py tests/interop/test_scan_types.py::test_variant_and_geometry
test-duckdb2-quick: ## Run the quick ones of them
	@$(MAKE) --no-print-directory test-duckdb2 DUCKDB2_TESTS='$(DUCKDB2_QUICK)'

lint: venv ## Check style, format, types, and which room knows which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: venv ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: venv ## Check types
	$(BIN)/mypy

docs: venv ## Build the documentation site into build/site; a broken link or a missing docstring fails
	$(BIN)/python scripts/site/references.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-release: docs ## Commit the site of this version to the local branch gh-pages, beside those of earlier ones
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 $(BIN)/mike deploy --update-aliases "$$($(BIN)/python -c 'import ducklake_spark; print(ducklake_spark.__version__)')" latest
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 $(BIN)/mike set-default latest

docs-serve: docs ## Show the documentation site while it is written
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

test-docs: venv java ## Run the examples in docstrings, README.md and docs/
	$(call PYTEST,$(VENV)) -n $(JOBS) $(BY_FILE) --doctest-modules --doctest-glob='*.md' src README.md docs tests/test_docs.py $(OR_NONE)

bench-catalog: venv java ## Measure the catalog
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/catalog.py $(ARGS)

bench-commits: venv servers ## Measure commits of many writers on PostgreSQL; smaller: ARGS='--writers 8 --rounds 1'
	@$(BIN)/python benchmarks/commits.py $(ARGS)

bench-read: venv java servers ## Measure reads; smaller: ARGS='--tpch 0.1 --rows 600000'
	@$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[dev,bench]'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/scan.py $(ARGS)

bench-write: venv java servers ## Measure writes; smaller: ARGS='--rows 600000 --times 1'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/write.py $(ARGS)

bench-add-files: venv java ## Measure how many existing files are added; smaller: ARGS='--files 1000 --extension'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/add_files.py $(ARGS)

bench-rows: venv java ## Measure changes of rows; smaller: ARGS='--rows 600000 --times 1'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/rows.py $(ARGS)

bench-duckdb: venv java ## Measure expressions that DuckDB evaluates in the workers; smaller: ARGS='--rows 200000 --times 1'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/duckdb_expressions.py $(ARGS)

bench-first: venv java ## Measure README.md's first minute; more often: ARGS='--times 5'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/first_minute.py $(ARGS)

bench-anywhere: venv java s3-jars ## Measure encrypted lakes and buckets beside plain local ones; smaller: ARGS='--rows 200000 --times 1'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/anywhere.py $(ARGS)

bench-maintenance: venv java ## Measure compaction; smaller: ARGS='--rows 600000 --files 200 --times 1'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/maintenance.py $(ARGS)

bench-native: venv java ## Measure tables through spark.sql beside lake.table; smaller: ARGS='--rows 200000 --parts 20 --times 5'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/native.py $(ARGS)

bench-growth: venv java ## Measure what steps cost as files, snapshots and tables grow; smaller: ARGS='--sizes 1,10 --times 3'
	@$(call SPARK_ENV,$(VENV)) $(BIN)/python benchmarks/growth.py $(ARGS)

# The newest PySpark for which both Delta and Iceberg have jars (benchmarks/peers/jars.py), in an environment of its own.
$(PEERS)/.stamp: pyproject.toml requirements-dev.lock
	@scripts/venv $(PEERS) dev 'pyspark==4.1.4' duckdb-extension-tpch

bench-peers: $(PEERS)/.stamp java ## Measure beside Delta and Iceberg; smaller: ARGS='--only scan,rows --scale 0.1 --rounds 3'
	@$(call SPARK_ENV,$(PEERS)) $(PEERS)/bin/python -m benchmarks.peers $(ARGS)

lock: venv ## Write requirements-dev.lock: the versions that the tests were run with
	@$(BIN)/python -m pip install --disable-pip-version-check -q uv
	@$(BIN)/uv pip compile -q --universal --python-version 3.10 --all-extras --no-emit-index-url --no-annotate \
		--custom-compile-command 'make lock' -o requirements-dev.lock pyproject.toml

release: venv java ## Build wheel and sdist, check them, and try the wheel in a new environment
	@$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[dev,release]'
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	@JAVA_HOME="$$(scripts/java)" scripts/try-wheel dist/*.whl

try-airflow: java ## Run examples/airflow with Airflow, in an environment of its own
	@JAVA_HOME="$$(scripts/java)" scripts/try-airflow .venvs/airflow

try-dbt: venv java ## Run examples/dbt with dbt-spark, in an environment of its own
	@JAVA_HOME="$$(scripts/java)" scripts/try-dbt .venvs/dbt $(BIN)/python

clean: ## Remove environments, caches and build results
	rm -rf $(VENV) .venvs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
