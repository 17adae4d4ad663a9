# One command for each chore, the same at home and in CI. Bare `make` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION = $(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null || echo dev)
IMAGE   = flux-resourceset:local

# Product modules. e2e has one of its own, so that a Kubernetes client stays out of the product's.
MODULES = . $(patsubst %/go.mod,%,$(wildcard e2e/go.mod))

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## start the server with the demo fleet on 127.0.0.1:8080
	@DEMO_DATABASE_URL='$(if $(filter command line,$(origin DATABASE_URL)),$(DATABASE_URL))' exec scripts/run-demo

.PHONY: build
build: ## build the server and the CLI into bin/
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

.PHONY: dist
dist: ## build release archives for every platform into dist/
	VERSION='$(VERSION)' scripts/dist

.PHONY: generate
generate: ## write gen/ from openapi/openapi.yaml
	scripts/generate

.PHONY: manifests
manifests: ## write charts/manifests/cluster.yaml, the cluster chart without Helm
	scripts/manifests

.PHONY: verify
verify: ## check that generated code, modules, formatting and the spec are current and sound
	scripts/verify

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
test: ## run the tests, with real databases; no cluster is needed
	go test ./...

.PHONY: race
race: ## run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race ./...

.PHONY: bench
bench: ## run the benchmarks, each with its baseline
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: e2e
e2e: ## run the end-to-end suite: a real Flux Operator on a real Kubernetes API server
	@if [[ -f e2e/go.mod ]]; then cd e2e && go test -count=1 -timeout 40m ./...; else \
		echo "There is no end-to-end suite yet. It will start a real Kubernetes API server, install the"; \
		echo "cluster chart with the real Flux Operator, and check what each cluster ends up running."; \
	fi

.PHONY: docker-build
docker-build: ## build the container image (needs a container engine)
	DOCKER_BUILDKIT=1 docker build --build-arg VERSION='$(VERSION)' -t '$(IMAGE)' .

.PHONY: clean
clean: ## remove binaries and built tools; data/ stays
	rm -rf bin dist .cache tools/redocly/node_modules
