# One command for each chore, the same at home and in CI. Bare `make` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null || echo dev)

# The image that docker-build makes, and the kind cluster of the demo.
IMAGE_NAME   = flux-resourceset
IMAGE_TAG    = local
IMAGE        = $(IMAGE_NAME):$(IMAGE_TAG)
KIND_CLUSTER = flux-demo
export IMAGE_NAME IMAGE_TAG KIND_CLUSTER

# Where `make install` puts the CLI.
PREFIX = /usr/local

# How long `make faults` injects faults on each store, and any further flags of the harness.
FAULTS_DURATION = 2m
FAULTS          =

# What .ci/run has the race detector look at: where goroutines meet, in a few minutes. The nightly workflow runs it all.
RACE       = ./...
RACE_SHORT = -short ./store/... ./test/faults/internal/...

# What is shipped; the fault harness is not.
PROGRAMS = ./cmd/flux-resourceset ./cmd/flux-resourceset-cli

# Go modules. test/e2e has one of its own, so that a Kubernetes client stays out of the product's.
MODULES = . $(patsubst %/go.mod,%,$(wildcard test/e2e/go.mod))

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The cases that run again on Postgres, with two read-only servers; all of them with E2E_POSTGRES=. (another minute).
E2E_POSTGRES = ^(TestDemoFleet|TestOverrides|TestCommandLine|TestDecommission|TestPollTokens|TestMutualTLS|TestLayers|TestRolloutByReceipts|TestSource$$)

# How long the soak changes things.
E2E_SOAK = 5m

.PHONY: run
run: build ## start the server with the demo fleet on 127.0.0.1:8080
	@DEMO_DATABASE_URL='$(if $(filter command line,$(origin DATABASE_URL)),$(DATABASE_URL))' exec scripts/run-demo

.PHONY: build
build: ## build the server and the CLI into bin/
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ $(PROGRAMS)

.PHONY: cli-build
cli-build: ## build the CLI alone
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/flux-resourceset-cli

.PHONY: install
install: cli-build ## install the CLI into PREFIX (/usr/local), also as frs and as kubectl-frs, which is `kubectl frs`
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 bin/flux-resourceset-cli '$(DESTDIR)$(PREFIX)/bin/'
	for name in frs kubectl-frs; do ln -sf flux-resourceset-cli '$(DESTDIR)$(PREFIX)'/bin/$$name; done

.PHONY: dist
dist: ## build a release into dist/: archives, packages and charts, of the tag in VERSION or of this checkout
	$(if $(filter-out file,$(origin VERSION)),VERSION='$(VERSION)' )scripts/dist

.PHONY: release-snapshot
release-snapshot: ## make a release into dist/ without publishing it, and try what is in it (needs dpkg-deb, rpm and zip)
	scripts/release-snapshot

.PHONY: generate
generate: ## write gen/ from openapi/openapi.yaml
	scripts/generate

.PHONY: manifests
manifests: ## write charts/manifests: both charts without Helm, the service's as a base of kustomize
	scripts/manifests

.PHONY: verify
verify: ## check that generated code, modules, formatting and the spec are current and sound
	scripts/verify

.PHONY: lint-spec
lint-spec: ## lint the OpenAPI document with Spectral and Redocly (needs Node.js)
	@scripts/lint-spec

.PHONY: docs
docs: ## write the reference of the CLI (docs/cli.md), then hold README.md and docs/ against the program: links, settings, commands
	@manual=$$(go run ./cmd/flux-resourceset-cli docs) && printf '%s\n' "$$manual" >docs/cli.md
	go test ./docs

.PHONY: docs-site docs-serve
docs-site: ## build the documentation as a site into dist/site (needs Python); a link that leads nowhere is an error
	@scripts/docs-site build

docs-serve: ## serve that site on 127.0.0.1:8000, again whenever a page changes
	@scripts/docs-site serve

.PHONY: screenshots
screenshots: ## take the screenshots in docs/images anew, after a change of the fleet page (needs Chromium)
	@scripts/screenshots

.PHONY: lint
lint: ## run the linters of .golangci.yml
	@for module in $(MODULES); do (cd $$module && $(CURDIR)/scripts/tool golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: fmt
fmt: ## format the Go files
	scripts/go-files | xargs -r scripts/tool gofumpt -w

.PHONY: fix
fix: ## let the linters correct what they can, then format
	for module in $(MODULES); do (cd $$module && $(CURDIR)/scripts/tool golangci-lint run --config $(CURDIR)/.golangci.yml --fix ./...) || true; done
	$(MAKE) fmt

.PHONY: test
test: ## run the tests, with real databases and a real browser (installed where they are missing); no cluster is needed
	@scripts/need browser postgresql nginx curl jq
	go test -timeout 45m -skip '^TestDrill' ./store/postgres ./... # what takes longest, mostly waiting, begins first

.PHONY: test-long
test-long: ## run the long forms of the tests that make test shortens, some minutes
	HIDDEN_IDS=all FLIPPED_BITS=1000 go test -count=1 -timeout 60m -run '^(TestHiddenIDs|TestFlippedBitsInBackups)$$' ./server ./cmd/flux-resourceset

.PHONY: race
race: ## run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 60m $(RACE)

.PHONY: race-short
race-short: ## the same for the parts where goroutines meet, in a few minutes
	@$(MAKE) race RACE='$(RACE_SHORT)'

.PHONY: bench
bench: ## run the benchmarks, each with its baseline
	go test -run '^$$' -bench . -benchmem -timeout 60m ./...

.PHONY: bench-compare
bench-compare: ## compare the processor time of polls with revision BASE, in alternating rounds (BENCH_CLUSTERS=1000, BENCH_ROUNDS=9)
	@scripts/bench-compare '$(BASE)'

.PHONY: faults
faults: ## break things around real servers for minutes and check their promises: docs/reliability.md
	go run ./test/faults -duration '$(FAULTS_DURATION)' $(FAULTS)

.PHONY: faults-short
faults-short: ## the same in a minute or two: the quickest attacks, six seconds of faults, the quickest negative controls
	@scripts/need postgresql
	go test -count=1 -timeout 20m -run '^TestDrill' ./test/faults

.PHONY: failover
failover: ## kill processes and databases under 500 polls a second, and print what clusters notice: docs/production.md
	@scripts/need postgresql
	go run ./test/faults -phases failover $(FAULTS)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s each)
	@scripts/fuzz

.PHONY: fuzz-api
fuzz-api: ## hold the real server against its contract with Schemathesis, in both modes (needs Python)
	@scripts/fuzz-api

.PHONY: clients
clients: ## generate clients with five public generators and run one story with each (needs Python, Node.js and Java; minutes)
	@scripts/clients

.PHONY: e2e
e2e: ## run the end-to-end suite: a real Flux Operator on a real Kubernetes API server; on SQLite, then Postgres
	@scripts/e2e-tools >/dev/null
	cd test/e2e && go test -count=1 -timeout 40m -parallel 6 -v -skip '^TestSoak' ./... | grep -v '^=== '
	cd test/e2e && E2E_STORE=postgres go test -count=1 -timeout 40m -parallel 6 -v -run '$(E2E_POSTGRES)' . | grep -v '^=== '

.PHONY: e2e-newest
e2e-newest: ## the same with the newest versions of Flux, some of which need a newer release of Go: it is fetched to build them
	@E2E_FLUX=newest $(MAKE) e2e

.PHONY: e2e-node
e2e-node: ## install both charts on a real node: kubelet and containerd on this machine, in namespaces of their own (Linux, root)
	@scripts/e2e-node

.PHONY: e2e-soak
e2e-soak: ## random changes for E2E_SOAK (5m), each receipt held against what really runs; and the control
	@scripts/e2e-tools >/dev/null
	cd test/e2e && E2E_SOAK='$(E2E_SOAK)' go test -count=1 -timeout 90m -v -run '^TestSoak' . | grep -v '^=== '

.PHONY: demo-local
demo-local: ## the demo on this machine, without containers: a real API server and Flux (Linux)
	@scripts/e2e-tools >/dev/null
	@cd test/e2e && mkdir -p ../../.cache/e2e && go build -o ../../.cache/e2e/demo-local ./cmd/demo-local && exec ../../.cache/e2e/demo-local

.PHONY: demo
demo: kind-create kind-setup kind-demo ## the demo in a kind cluster (needs docker, kind, kubectl and helm)

.PHONY: kind-create kind-setup kind-demo kind-delete cli-demo-port-forward cli-demo
kind-create: ## create the kind cluster flux-demo
	@scripts/demo-kind create

kind-setup: ## load the image into it and install Flux
	@scripts/demo-kind setup

kind-demo: ## install the service and make the cluster part of its fleet
	@scripts/demo-kind demo

kind-delete: ## remove the kind cluster
	@scripts/demo-kind delete

cli-demo-port-forward: ## serve the API of the kind demo on 127.0.0.1:8080
	@scripts/demo-kind port-forward

cli-demo: build ## change things with the CLI and see them arrive in the kind cluster
	@scripts/demo-kind cli

.PHONY: docker-build
docker-build: ## build the container image (needs a container engine)
	DOCKER_BUILDKIT=1 docker build --build-arg VERSION='$(VERSION)' -t '$(IMAGE)' .

.PHONY: clean
clean: ## remove binaries and built tools; the demo's data and its kind cluster stay
	rm -rf bin dist .cache
	@if [[ -d data ]]; then echo "data/ stays: it holds the fleet of make run (rm -r data removes it)"; fi
	@echo "What make demo started stays: make kind-delete removes the kind cluster $(KIND_CLUSTER), docker image rm $(IMAGE) the image"
