# edgeseg: make alone prints what there is. Every stage is also a plain command (see README).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON  ?= python3
VENV    ?= .venv
TORCH   ?= cpu
DEMO    ?= full
RECIPE  ?= recipes/synthetic_b0.toml
DATA    ?= data/synthetic
SPLIT   ?= val
NAME    ?= $(RUN)
RUN     ?= $(basename $(notdir $(RECIPE)))
TARGET  ?= onnxruntime
PRECISION ?= fp32
THREADS ?= 2
METHOD  ?= adapter
DOMAIN  ?=
SIZE    ?=
SET     ?=
COMPARE ?= demo-softmax
IMAGE   ?= data/synthetic/val/images/00000.jpg
AT      ?=

DEVICE  ?=
HOST    ?=

PY      := $(VENV)/bin/python
READY   := $(VENV)/.installed
# An empty SIZE means the size the checkpoint was trained for; the bundle's folder is then named without it.
SIZE_OPTION := $(if $(SIZE),--size $(SIZE))
BUNDLE  ?= bundles/$(RUN)-$(TARGET)-$(PRECISION)$(if $(SIZE),-$(SIZE))
OUT     ?= runs/report
WEB     := deploy/web/ort/ort-wasm-simd-threaded.wasm
REPORT  := $(OUT)/$(notdir $(BUNDLE)).json

.PHONY: help setup system demo data train adapt evaluate publish calibrate export export-all list bench report device serve web benchmark attention readme test test-all test-arm64 lint clean

help:  ## print this text
	@echo "usage: make TARGET [VARIABLE=value ...]"; echo
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo "variables (with their value now):"
	@echo "  RECIPE=$(RECIPE) RUN=$(RUN) NAME=$(NAME) DATA=$(DATA) SPLIT=$(SPLIT)"
	@echo "  TARGET=$(TARGET) PRECISION=$(PRECISION) SIZE=$(SIZE) THREADS=$(THREADS)"
	@echo "  BUNDLE=$(BUNDLE) DEVICE=$(DEVICE) (ssh://user@host ...) HOST=$(HOST) (serve: 0.0.0.0)"
	@echo "  METHOD=$(METHOD) DOMAIN=$(DOMAIN) (adapt)"
	@echo "  COMPARE=$(COMPARE) IMAGE=$(IMAGE) AT='Y,X ...' (attention: twin, picture, queries)"
	@echo "  OUT=$(OUT) SET='key=value ...' (recipe settings)"
	@echo "  TORCH=$(TORCH) (cpu | cuda: which PyTorch build setup installs)  DEMO=$(DEMO) (full | tiny)"

## ---- installation ---------------------------------------------------------------------------------------
setup: $(READY)  ## install everything, pinned, into .venv

# TORCH=cpu takes the CPU build (200 MB instead of several GB): from the indexes pip knows, else from PyTorch's.
TORCH_cpu  = $(PY) -m pip install -q -c constraints.txt torch==$(TORCH_VERSION)+cpu 2>/dev/null \
	|| $(PY) -m pip install -c constraints.txt torch==$(TORCH_VERSION)+cpu --index-url https://download.pytorch.org/whl/cpu
TORCH_cuda = $(PY) -m pip install -c constraints.txt torch==$(TORCH_VERSION)
TORCH_VERSION = $(shell sed -n 's/^torch==//p' constraints.txt)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "error: $(PYTHON) is too old | expected Python >= 3.10 | set PYTHON=python3.11" >&2; exit 2; }
	@test -n "$(TORCH_$(TORCH))" || { echo "error: TORCH=$(TORCH) | expected cpu or cuda" >&2; exit 2; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(TORCH_$(TORCH))
	$(PY) -m pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

system:  ## Debian packages that some checks need (an ssh server, a browser, npm, an emulator of arm64); as root
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(SYSTEM_PACKAGES)

SYSTEM_PACKAGES := openssh-client openssh-server chromium qemu-user-static $(if $(shell command -v npm),,npm)

## ---- the stages -----------------------------------------------------------------------------------------
data: $(READY)  ## make the synthetic street scenes (data/synthetic)
	$(PY) -m pipeline prepare --kind synthetic --out data/synthetic $(DATA_OPTIONS)

train: $(READY)  ## train RECIPE on DATA into runs/RUN
	$(PY) -m pipeline train --recipe $(RECIPE) --data $(DATA) --run $(RUN) $(foreach s,$(SET) $(TINY),--set $(s))

adapt: $(READY)  ## add a domain to the base RUN, from DATA, by METHOD
	$(PY) -m pipeline adapt --checkpoint $(RUN) --data $(DATA) --method $(METHOD) $(if $(DOMAIN),--domain $(DOMAIN)) $(foreach s,$(SET),--set $(s))

evaluate: $(READY)  ## mIoU of the checkpoint RUN on DATA's SPLIT
	$(PY) -m pipeline evaluate --checkpoint $(RUN) --data $(DATA) --split $(SPLIT)

publish: $(READY)  ## a finished RUN -> zoo/NAME: weights, recipe, log, curves, model card
	$(PY) -m pipeline publish --run $(RUN) --name $(NAME)

calibrate: $(READY)  ## choose calibration images for RUN from DATA's train split
	$(PY) -m calibration collect --checkpoint $(RUN) --data $(DATA) --out runs/$(RUN)/calibration.json

export: $(READY)  ## build and prove a bundle of RUN for TARGET and PRECISION
	$(PY) -m export build --checkpoint $(RUN) --target $(TARGET) --precision $(PRECISION) $(SIZE_OPTION) --data $(DATA) --split $(SPLIT) --out $(BUNDLE)

# The README's matrix is made from these reports: OUT=reports stores one there.
export-all: calibrate  ## every available target in every precision of RUN, proven and timed, as one table
	$(PY) -m export all --checkpoint $(RUN) $(SIZE_OPTION) --data $(DATA) --split $(SPLIT) --threads $(THREADS) --json $(OUT)/targets_$(RUN).json

list: $(READY)  ## every export target, available here or not, and why
	$(PY) -m export list

bench: $(READY)  ## speed, memory and mIoU of BUNDLE on DATA's SPLIT, here or on DEVICE, as JSON in OUT
	$(if $(DEVICE),,$(PY) -m deploy verify $(BUNDLE) --threads $(THREADS))
	$(PY) -m deploy bench $(BUNDLE) --data $(DATA) --split $(SPLIT) $(if $(DEVICE),$(foreach d,$(DEVICE),--device $(d)) --keep $(OUT),--threads $(THREADS) --json $(REPORT))

report: $(READY)  ## one page of all measurements in OUT
	$(PY) -m deploy report $(OUT)/*.json --html $(OUT)/index.html

benchmark: $(READY)  ## our export against the plain one, linear against softmax, time by operator; into the README
	$(PY) -m benchmarks.plain --threads $(THREADS) --json reports/benchmark_plain.json
	$(PY) -m benchmarks.scaling --threads $(THREADS) --json reports/benchmark_scaling.json
	$(PY) -m benchmarks.operators --threads $(THREADS) --json reports/benchmark_operators.json
	$(PY) docs/benchmark_pictures.py
	$(PY) docs/readme.py

attention: $(READY)  ## what RUN and its twin COMPARE attend to in IMAGE; into the README
	$(PY) -m pipeline attention --checkpoint $(RUN) --compare $(COMPARE) --image $(IMAGE) $(SIZE_OPTION) $(foreach q,$(AT),--at $(q)) \
		--out docs/images/attention.png --json reports/attention.json
	$(PY) docs/readme.py

device: dist/edgeseg-device.pyz  ## all that runs on a device as one file, dist/edgeseg-device.pyz

dist/edgeseg-device.pyz: $(shell find deploy -type f -not -name '*.pyc' 2>/dev/null) | $(READY)
	$(PY) -m deploy _onefile $@

web: $(WEB)  ## onnxruntime-web beside the page of `serve` (fetched by npm, pinned by hash)

$(WEB): deploy/server/vendor.py | $(READY)
	$(PY) -m deploy _vendor

serve: $(READY) $(WEB)  ## the page that runs BUNDLE (or several) in a browser; on HOST with a token and TLS
	$(PY) -m deploy serve $(BUNDLE) --reports $(OUT) $(if $(HOST),--host $(HOST) --tls)

## ---- the demo -------------------------------------------------------------------------------------------
# DEMO=tiny does the same in a minute, to see that everything works; its models are far from trained.
ifeq ($(DEMO),tiny)
DATA_OPTIONS := --train 16 --val 8
TINY := train.steps=8 train.batch=4 train.eval_every=8 train.warmup=2 finish.batch=2
DEMO_DATA := data/synthetic-tiny
DEMO_NAME := demo-tiny
CT_OPTIONS := --patients 2 --holdout 0.5 --depth 6
CT_SET := train.steps=4 train.batch=4 train.eval_every=4 train.warmup=1
else
DATA_OPTIONS :=
TINY :=
DEMO_DATA := data/synthetic
DEMO_NAME := demo
CT_OPTIONS := --patients 8 --depth 16
CT_SET :=
endif
DEMO_CT := data/$(DEMO_NAME)_ct
DEMO_BASE := $(DEMO_NAME)-linear
DEMO_PAGE := runs/$(DEMO_NAME)/index.html
DEMO_REPORTS := $(foreach a,linear softmax ct,runs/$(DEMO_NAME)/$(a).json)

demo: $(DEMO_PAGE)  ## synthetic data, two models and a CT domain trained, exported, verified, measured, one page
	@echo "CT volumes with their labels: runs/$(DEMO_NAME)/ct/*.png"
	@echo; echo "Done. Open $(CURDIR)/$(DEMO_PAGE) in a browser."
	@echo "Overlays: runs/$(DEMO_NAME)-linear/train/samples.png and runs/$(DEMO_NAME)-softmax/train/samples.png"

$(DEMO_DATA)/dataset.toml: | $(READY)
	$(PY) -m pipeline prepare --kind synthetic --out $(DEMO_DATA) $(DATA_OPTIONS)

runs/$(DEMO_NAME)-%/train/stage.json: $(DEMO_DATA)/dataset.toml recipes/synthetic_b0.toml | $(READY)
	$(PY) -m pipeline train --recipe recipes/synthetic_b0.toml --data $(DEMO_DATA) --run $(DEMO_NAME)-$* --set model.attention=$* $(foreach s,$(TINY),--set $(s))
	@touch $@

bundles/$(DEMO_NAME)-%/bundle.json: runs/$(DEMO_NAME)-%/train/stage.json
	$(PY) -m export build --checkpoint $(DEMO_NAME)-$* --target onnxruntime --precision fp32 --data $(DEMO_DATA) --eval 8 --out $(@D)
	@touch $@

runs/$(DEMO_NAME)/%.json: bundles/$(DEMO_NAME)-%/bundle.json
	$(PY) -m deploy verify $(<D)
	$(PY) -m deploy bench $(<D) --data $(DEMO_DATA) --threads $(THREADS) --json $@

# The CT domain: made-up patients, an adapter on the street model, one bundle of both, a volume segmented.
$(DEMO_CT)/dataset.toml: | $(READY)
	$(PY) -m pipeline prepare --kind ct_phantom --out $(DEMO_CT) $(CT_OPTIONS)

runs/$(DEMO_BASE)+ct/train/stage.json: runs/$(DEMO_BASE)/train/stage.json $(DEMO_CT)/dataset.toml recipes/ct_phantom_adapt.toml
	$(PY) -m pipeline adapt --checkpoint $(DEMO_BASE) --data $(DEMO_CT) --domain ct --bn-stats domain --recipe recipes/ct_phantom_adapt.toml $(foreach s,$(CT_SET),--set $(s))
	@touch $@

bundles/$(DEMO_NAME)-domains/bundle.json: runs/$(DEMO_BASE)+ct/train/stage.json
	$(PY) -m export build --checkpoint $(DEMO_BASE) --data $(DEMO_DATA) --domain ct=$(DEMO_BASE)+ct --domain-data ct=$(DEMO_CT) --target onnxruntime --precision fp32 --eval 8 --out $(@D)
	@touch $@

runs/$(DEMO_NAME)/ct.json: bundles/$(DEMO_NAME)-domains/bundle.json
	$(PY) -m deploy info $(<D)
	$(PY) -m deploy verify $(<D) --domain ct
	$(PY) -m deploy run $(<D) --domain ct $(DEMO_CT)/sources/nifti/volume-000.nii.gz --truth $(DEMO_CT)/sources/nifti/segmentation-000.nii.gz --out runs/$(DEMO_NAME)/ct
	$(PY) -m deploy bench $(<D) --domain ct --data $(DEMO_CT) --threads $(THREADS) --json $@

$(DEMO_PAGE): $(DEMO_REPORTS)
	$(PY) -m deploy report $^ --html $@

.SECONDARY:

## ---- checks ---------------------------------------------------------------------------------------------
readme: $(READY)  ## write the README's tables and tree anew from reports/ and the sources
	$(PY) docs/readme.py
	$(PY) docs/report_schema.py

lint: $(READY)  ## ruff, mypy --strict (deploy, calibration, export), import direction
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

test: lint  ## everything CI runs
	-@$(MAKE) -s web  # without npm the browser's tests say so and are skipped
	OMP_NUM_THREADS=1 $(PY) -m pytest -m "not slow" -n 2 --durations=25

test-all: lint  ## and the slow checks: the full demo, long trainings
	-@$(MAKE) -s web
	OMP_NUM_THREADS=2 $(PY) -m pytest

# An arm64 Python with a device's packages, unpacked (370 MB); nothing of it is installed on this machine.
.arm64/ready: tests/export/arm64/environment.py | $(READY)
	$(PY) $< $(@D)

test-arm64: .arm64/ready  ## bundles and the one-file program on an emulated 64-bit Arm processor
	OMP_NUM_THREADS=2 $(PY) -m pytest tests/export/arm64

clean:  ## remove what the demo and the checks made (your own runs and bundles stay)
	rm -rf runs/demo* bundles/demo* data/synthetic* data/demo* dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
