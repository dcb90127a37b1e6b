# The commands of this project. `make` alone lists them.

SHELL := bash
.DEFAULT_GOAL := help

GO ?= go
# Where the binary goes; the Dockerfile sets it.
BIN ?= bin
IMAGE ?= informd:dev
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# The linter is built from source once per version and Go release, into the
# user's cache, so that a clean checkout does not build it again.
GOLANGCI_LINT_VERSION := v2.15.0
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/informd-tools
GOLANGCI_LINT := $(TOOLS)/$(shell $(GO) env GOVERSION 2>/dev/null)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint

GOVULNCHECK_VERSION := v1.1.4

# The product's module and the one with the real servers to test against.
MODULES := . test
# With that of the oldest Kubernetes, which has two small files; to lint it, the
# linter would have to read all of that Kubernetes.
ALL_MODULES := $(MODULES) test/controlplane132
FUZZTIME ?= 20s
UNIT_TIMEOUT ?= 10m
E2E_TIMEOUT ?= 60m
# Of a run of random faults; the seed is from the clock unless given.
MINUTES ?= 10
# CI runs the faults that need nothing of the machine beyond processes and links.
CI_CHAOS := SEED=11 MINUTES=3 FAULTS=N1,N2,N3,N5,N6-restore-documented,N7,N9,N10,N11,N13,N14,N17,$\
	N20-proxy-404-all,N20-proxy-404-one-server,N20-proxy-503,N21-proxy-buffers,N21-proxy-http1,$\
	N22-servers-differ-in-history,N24-rewind-sink,N24-resnapshot,N25
# The faults of plain processes and links under the load of Kubernetes' own controllers.
CI_INDEPENDENT := SEED=12 MINUTES=2 FAULTS=N1,N2,N3,N5,N7,N9,N10,N11,N13,N14,N17

##@ Use

.PHONY: help
help: ## list these commands
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the static binary bin/informd
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/informd ./cmd/informd

.PHONY: demo
demo: build ## watch changes stream by, from an API server started here; Ctrl-C ends it
	@$(GO) build -C test -o '$(abspath $(BIN))/demo' ./demo
	@exec '$(abspath $(BIN))/demo' -informd '$(abspath $(BIN))/informd'

.PHONY: image
image: ## build the container image (needs Docker); IMAGE=name:tag
	docker build -f deploy/Dockerfile --build-arg VERSION='$(VERSION)' -t '$(IMAGE)' .

##@ Test

.PHONY: test
test: unit e2e ## everything that must pass

.PHONY: unit
unit: ## the product's tests, with the race detector, in random order
	@echo '==> unit tests'
	$(GO) test -race -shuffle=on -timeout $(UNIT_TIMEOUT) ./...

.PHONY: e2e
e2e: servers ## the tests against a real API server, etcd and NATS
	@echo '==> end-to-end tests'
	cd test && $(GO) test -race -p 1 -timeout $(E2E_TIMEOUT) -skip '^TestChaos$$' ./...

.PHONY: chaos
chaos: servers ## informd under random faults for MINUTES (10); SEED=… repeats a run, FAULTS=N1,N7 chooses
	@echo '==> random faults'
	cd test && CHAOS_SEED='$(SEED)' CHAOS_MINUTES='$(MINUTES)' CHAOS_FAULTS='$(FAULTS)' CHAOS_JOURNAL='$(JOURNAL)' \
		CHAOS_INFORMDS='$(INFORMDS)' CHAOS_SECOND='$(SECOND)' CHAOS_LOGS='$(LOGS)' \
		$(GO) test ./chaos -run '^TestChaos$$' -count 1 -v -timeout $$(($(MINUTES) * 2 + 15))m

.PHONY: chaos-long
chaos-long: ## the same for 40 minutes
	@$(MAKE) --no-print-directory chaos MINUTES=40

.PHONY: chaos-independent
chaos-independent: servers ## the same with one wildcard over everything and a load that Kubernetes' own controllers make
	@echo '==> random faults under independent load'
	cd test && CHAOS_INDEPENDENT=1 CHAOS_SEED='$(SEED)' CHAOS_MINUTES='$(MINUTES)' CHAOS_FAULTS='$(FAULTS)' CHAOS_JOURNAL='$(JOURNAL)' CHAOS_PODS='$(PODS)' \
		$(GO) test ./chaos -run '^TestChaos$$' -count 1 -v -timeout $$(($(MINUTES) * 2 + 15))m

.PHONY: mutants
mutants: servers ## the harness of random faults against informds with one bug each (about an hour)
	cd test && $(GO) test -tags chaosmutants ./chaos -run '^TestMutants$$' -count 1 -v -timeout 3h

.PHONY: chaos-baseline
chaos-baseline: servers ## the same with a hand-written informer program in informd's place
	@echo '==> random faults against the baseline'
	cd test && CHAOS_BASELINE=1 CHAOS_SEED='$(SEED)' CHAOS_MINUTES='$(MINUTES)' \
		$(GO) test ./chaos -run '^TestChaos$$' -count 1 -v -timeout $$(($(MINUTES) * 2 + 15))m

.PHONY: servers
servers: ## build the servers that the tests use (Kubernetes, etcd, NATS), if not in the cache yet
	@echo '==> test servers (the first time, two versions of Kubernetes are built from source: about 20 minutes on 2 cores)'
	@$(GO) run -C test ./cluster/build

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (20s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd pkg | while IFS=: read -r file func; do \
		name="$${func#func }"; \
		echo "==> $$name in $$(dirname "$$file")"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" || exit 1; \
	done

.PHONY: bench
bench: build servers ## informd measured against what people use today; QUICK=1, ONLY=<regexp>, ROUNDS=n; bin/bench.json
	@echo '==> benchmarks'
	@$(GO) build -C test -o '$(abspath $(BIN))/bench' ./bench
	@cd test && '$(abspath $(BIN))/bench' -informd '$(abspath $(BIN))/informd' -json '$(abspath $(BIN))/bench.json' \
		$(if $(QUICK),-quick) $(if $(ONLY),-run '$(ONLY)') $(if $(ROUNDS),-rounds $(ROUNDS))

.PHONY: bench-profile
bench-profile: servers ## where informd's CPU and heap go at saturation; SINK=nats, JOURNAL=memory, CORPUS=pods, OBJECTS=20000; bin/*.pprof
	@mkdir -p '$(BIN)' && $(GO) build -C test -o '$(abspath $(BIN))/bench' ./bench
	@cd test && '$(abspath $(BIN))/bench' profile -out '$(abspath $(BIN))' \
		$(if $(SINK),-sink '$(SINK)') $(if $(JOURNAL),-journal '$(JOURNAL)') $(if $(CORPUS),-corpus '$(CORPUS)') $(if $(OBJECTS),-objects '$(OBJECTS)')

.PHONY: bench-go
bench-go: ## the packages' own benchmarks, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem ./...

##@ Keep in order

.PHONY: check
check: fmt lint unit ## what every commit passes

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format the code
	@for module in $(MODULES); do (cd "$$module" && $(GOLANGCI_LINT) fmt ./...) || exit 1; done

.PHONY: lint
lint: $(GOLANGCI_LINT) ## check the rules of .golangci.yml, formatting included
	@# The flags are those of the binaries' builds, so that kube-apiserver is not
	@# compiled a second time.
	@export CGO_ENABLED=0 GOFLAGS=-trimpath; for module in $(MODULES); do \
		echo "==> lint $$module"; \
		(cd "$$module" && $(GOLANGCI_LINT) run --allow-serial-runners ./...) || exit 1; \
	done

.PHONY: vulncheck
vulncheck: ## before a release: known vulnerabilities in what the binary calls (asks vuln.go.dev)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./cmd/informd

.PHONY: schema
schema: ## write the JSON Schemas in schema/ anew, from the code
	$(GO) test ./cmd/informd/internal/schemagen -run '^TestShipped$$' -count 1 -update

.PHONY: tidy
tidy: ## bring go.mod and go.sum in order
	@for module in $(ALL_MODULES); do (cd "$$module" && $(GO) mod tidy) || exit 1; done

.PHONY: tidy-check
tidy-check: ## fail if go.mod or go.sum is not in order
	@for module in $(ALL_MODULES); do \
		echo "==> go mod tidy -diff in $$module"; \
		(cd "$$module" && $(GO) mod tidy -diff) || { echo "run 'make tidy' and commit the result" >&2; exit 1; }; \
	done

.PHONY: ci
ci: tidy-check lint build test ## all that CI runs
	@$(MAKE) --no-print-directory chaos $(CI_CHAOS)
	@$(MAKE) --no-print-directory chaos-independent $(CI_INDEPENDENT)

.PHONY: clean
clean: ## remove what was built here
	rm -rf bin

# Built in a directory of its own and moved when it is whole, so that an
# interrupted build leaves nothing that looks finished.
$(GOLANGCI_LINT):
	@echo '==> building golangci-lint $(GOLANGCI_LINT_VERSION) into $(@D) (once; takes some minutes)'
	@mkdir -p '$(@D)'
	@tmp="$$(mktemp -d '$(@D)/build.XXXXXX')" && trap 'rm -rf "$$tmp"' EXIT && \
	GOFLAGS= GOBIN="$$tmp" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION) && \
	mv "$$tmp/golangci-lint" '$@'
