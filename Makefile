# The commands of this project. `make` alone lists them.

SHELL := bash
.DEFAULT_GOAL := help

GO ?= go
# The directory of the binary; the Dockerfile sets it.
BIN ?= bin
IMAGE ?= informd:dev
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# make builds the linter from source once per version and Go release, into the
# user's cache. A clean checkout does not build it again.
GOLANGCI_LINT_VERSION := v2.15.0
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/informd-tools
GOLANGCI_LINT := $(TOOLS)/$(shell $(GO) env GOVERSION 2>/dev/null)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint

# The tests of the Helm chart run the real helm, built in the same way.
HELM_VERSION := v3.22.0
HELM := $(TOOLS)/$(shell $(GO) env GOVERSION 2>/dev/null)/helm-$(HELM_VERSION)/helm
# Prometheus comes from its Debian package: as a Go module it would take minutes to build.
PROMETHEUS := $(TOOLS)/prometheus-debian/usr/bin/prometheus
export TOOLS

# Only releases need it: it takes many minutes to build.
GORELEASER_VERSION := v2.15.1
COSIGN_VERSION := v3.0.4
SYFT_VERSION := v1.40.0
GORELEASER := $(TOOLS)/$(shell $(GO) env GOVERSION 2>/dev/null)/goreleaser-$(GORELEASER_VERSION)/goreleaser

GOVULNCHECK_VERSION := v1.1.4

# The product's module, the module with the real servers for tests, and the examples that are modules.
MODULES := . test examples/manager examples/sink
# Adds the modules of the oldest Kubernetes and of the Collector, which have three small files. The
# linter skips them: it would have to read all of both.
ALL_MODULES := $(MODULES) test/controlplane132 test/collector
FUZZTIME ?= 20s
UNIT_TIMEOUT ?= 20m
E2E_TIMEOUT ?= 60m
# The race detector makes each process sleep for a second before it ends, unless GORACE says otherwise.
export GORACE ?= atexit_sleep_ms=10
# Build tags of the unit tests: `long` adds those of about ten seconds and more.
TAGS ?=
# The packages of end-to-end tests whose tests wait more than they compute, the slowest first.
E2E_BESIDE = ./e2e/watching ./e2e/delivery $$($(GO) list -race -f '{{if or .GoFiles .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | \
	grep -v -e '/e2e/core$$' -e '/e2e/measured$$' -e '/schema$$' -e '/schemagen$$')
# Minutes of a run of random faults. Without SEED the clock gives the seed.
MINUTES ?= 10
# The faults that CI runs: they need only processes and network links.
CI_CHAOS := SEED=11 MINUTES=3 FAULTS=N1,N2,N3,N5,N6-restore-documented,N7,N9,N10,N11,N13,N14,N17,$\
	N20-proxy-404-all,N20-proxy-404-one-server,N20-proxy-503,N21-proxy-buffers,N21-proxy-http1,$\
	N22-servers-differ-in-history,N24-rewind-sink,N24-resnapshot,N25
# The faults of replicas that CI runs, but for those that take long.
CI_PAIR := SEED=13 MINUTES=1 INFORMDS=2 FAULTS=N19-kill-leader,N19-stop-leader,N19-freeze-leader,N19-freeze-follower,$\
	N19-former-leader,N19-lose-follower,N19-roll-out,N19-part,N19-cut-off-api,N19-cut-off-sinks,N19-isolate-leader
# The faults of processes and links that CI runs under the load of Kubernetes' own controllers.
CI_INDEPENDENT := SEED=12 MINUTES=2 FAULTS=N1,N2,N3,N5,N7,N9,N10,N11,N13,N14,N17

##@ Use

.PHONY: help
help: ## list these commands
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the static binary bin/informd
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/informd ./cmd/informd

.PHONY: examples
examples: ## build the programs of examples/, and test the sink, which is a module as users have it
	CGO_ENABLED=0 $(GO) build -trimpath ./examples/...
	CGO_ENABLED=0 $(GO) build -C examples/manager -trimpath -o /dev/null .
	CGO_ENABLED=0 $(GO) build -C examples/sink -trimpath -o /dev/null .
	cd examples/sink && $(GO) test -race ./...

.PHONY: demo
demo: ## show events of a cluster that the demo starts; DEMO_CLUSTER=existing uses that of KUBECONFIG; Ctrl-C stops
	@echo '==> demo: builds informd, etcd, kube-apiserver and nats-server unless they are cached (10 minutes on 2 cores); DEMO_CLUSTER=existing: the cluster of KUBECONFIG'
	@$(MAKE) --no-print-directory build
	@$(GO) build -C test -o '$(abspath $(BIN))/demo' ./demo
	@exec '$(abspath $(BIN))/demo' -informd '$(abspath $(BIN))/informd'

.PHONY: image
image: ## build the container image (needs Docker); IMAGE=name:tag
	docker build -f deploy/Dockerfile --build-arg VERSION='$(VERSION)' -t '$(IMAGE)' .

##@ Test

.PHONY: test
test: unit core ## run the unit tests and the core end-to-end tests, about 10 minutes on 2 cores

.PHONY: test-long
test-long: TAGS := long
test-long: unit e2e ## run all tests, those of `make test` among them

.PHONY: unit
unit: ## run the unit tests with the race detector, in random order; TAGS=long adds the long ones
	@echo '==> unit tests'
	@# Four packages at once on two cores: they wait more than they compute.
	$(GO) test -race -p 4 -shuffle=on -tags '$(TAGS)' -timeout $(UNIT_TIMEOUT) ./...
	cd test && $(GO) test -race -shuffle=on -timeout $(UNIT_TIMEOUT) ./schema ./schemagen

.PHONY: core
core: servers
	@echo '==> core end-to-end tests: one or two for each promise'
	cd test && $(GO) test -race -timeout $(E2E_TIMEOUT) ./e2e/core

.PHONY: e2e
e2e: core extras ## run the tests with real servers: Kubernetes, etcd, NATS and others
	@echo '==> end-to-end tests that measure time or memory: nothing runs beside them'
	cd test && $(GO) test -race -timeout $(E2E_TIMEOUT) ./e2e/measured
	@echo '==> end-to-end tests'
	cd test && $(GO) test -race -p 2 -timeout $(E2E_TIMEOUT) $(E2E_BESIDE)

.PHONY: chaos
chaos: servers ## run informd under random faults for MINUTES (default: 10); SEED=… repeats a run, FAULTS=N1,N7 selects
	@echo '==> random faults'
	cd test && CHAOS_SEED='$(SEED)' CHAOS_MINUTES='$(MINUTES)' CHAOS_FAULTS='$(FAULTS)' CHAOS_JOURNAL='$(JOURNAL)' \
		CHAOS_INFORMDS='$(INFORMDS)' CHAOS_SECOND='$(SECOND)' CHAOS_LOGS='$(LOGS)' \
		$(GO) test -tags chaos ./chaos -run '^TestChaos$$' -count 1 -v -timeout $$(($(MINUTES) * 2 + 15))m

.PHONY: chaos-long
chaos-long: ## run chaos for 40 minutes
	@$(MAKE) --no-print-directory chaos MINUTES=40

.PHONY: chaos-independent
chaos-independent: servers ## run chaos with one wildcard over all resources, under the load of Kubernetes' own controllers
	@echo '==> random faults under independent load'
	cd test && CHAOS_INDEPENDENT=1 CHAOS_SEED='$(SEED)' CHAOS_MINUTES='$(MINUTES)' CHAOS_FAULTS='$(FAULTS)' CHAOS_JOURNAL='$(JOURNAL)' CHAOS_PODS='$(PODS)' \
		$(GO) test -tags chaos ./chaos -run '^TestChaos$$' -count 1 -v -timeout $$(($(MINUTES) * 2 + 15))m

.PHONY: mutants
mutants: servers ## check that chaos finds planted bugs, one at a time (about an hour)
	cd test && $(GO) test -tags chaos ./chaos -run '^TestMutants$$' -count 1 -v -timeout 3h

.PHONY: chaos-baseline
chaos-baseline: servers ## run chaos with a hand-written informer program instead of informd
	@echo '==> random faults against the baseline'
	cd test && CHAOS_BASELINE=1 CHAOS_SEED='$(SEED)' CHAOS_MINUTES='$(MINUTES)' \
		$(GO) test -tags chaos ./chaos -run '^TestChaos$$' -count 1 -v -timeout $$(($(MINUTES) * 2 + 15))m

.PHONY: servers
servers: ## build the test servers (Kubernetes, etcd, NATS) that are not in the cache
	@echo '==> test servers (the first run builds two versions of Kubernetes from source: about 20 minutes on 2 cores)'
	@$(GO) run -C test ./cluster/build

.PHONY: collector
collector: ## build the OpenTelemetry Collector of the long tests, if it is not in the cache
	@$(GO) run -C test ./cluster/build collector

.PHONY: helm
helm: $(HELM) ## build the helm command for the tests of deploy/helm, if it is not in the cache

.PHONY: browser
browser: ## install Chromium for the test of the page, if there is none (Debian, as root)
	@command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome || { \
		echo '==> chromium from the Debian packages (about 150 MB)'; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-dejavu-core; }

.PHONY: extras
extras: helm browser prometheus kafka interpreters collector postgres ## install and build what the tests of `make test-long` need beside the servers

.PHONY: kafka
kafka: ## fetch Apache Kafka from Maven Central, if it is not in the cache, and Java and Maven if there are none (Debian, as root)
	@command -v java && command -v mvn || { \
		echo '==> Java and Maven from the Debian packages'; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jre-headless maven; }
	@$(GO) run -C test ./cluster/build kafka

.PHONY: interpreters
interpreters: ## install jq, Node and Python for the examples of the exec sink, if there are none (Debian, as root)
	@command -v jq >/dev/null && command -v node >/dev/null && command -v python3 >/dev/null || { \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends jq nodejs python3; }

.PHONY: postgres
postgres: ## install PostgreSQL and PgBouncer for the tests of the sink, if they are missing (Debian, as root), and fetch other versions
	@ls /usr/lib/postgresql/*/bin/postgres /usr/sbin/pgbouncer >/dev/null 2>&1 && command -v mvn >/dev/null && command -v xz >/dev/null || { \
		echo '==> postgresql, pgbouncer, maven and xz from the Debian packages'; \
		mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql pgbouncer maven xz-utils; }
	@$(GO) run -C test ./cluster/build postgres

.PHONY: prometheus
prometheus: $(PROMETHEUS) ## unpack Prometheus for the test of the alerts from its Debian package

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default: 20s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd internal pkg | while IFS=: read -r file func; do \
		name="$${func#func }"; \
		echo "==> $$name in $$(dirname "$$file")"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" || exit 1; \
	done

.PHONY: bench
bench: build servers kafka postgres ## measure informd against a hand-written informer; QUICK=1, ONLY=<regexp>, ROUNDS=n, FIGURES=1; bin/bench.json
	@echo '==> benchmarks'
	@$(GO) build -C test -o '$(abspath $(BIN))/bench' ./bench
	@cd test && '$(abspath $(BIN))/bench' -informd '$(abspath $(BIN))/informd' -json '$(abspath $(BIN))/bench.json' \
		$(if $(QUICK),-quick) $(if $(FIGURES),-figures ../docs/figures.json) $(if $(ONLY),-run '$(ONLY)') $(if $(ROUNDS),-rounds $(ROUNDS))

.PHONY: bench-profile
bench-profile: servers ## profile CPU and heap of informd at saturation, or at RATE events/s; SINK=nats, JOURNAL=log, OBJECTS=20000; bin/*.pprof
	@mkdir -p '$(BIN)' && $(GO) build -C test -o '$(abspath $(BIN))/bench' ./bench
	@cd test && '$(abspath $(BIN))/bench' profile -out '$(abspath $(BIN))' \
		$(if $(SINK),-sink '$(SINK)') $(if $(JOURNAL),-journal '$(JOURNAL)') $(if $(OBJECTS),-objects '$(OBJECTS)') $(if $(RATE),-rate '$(RATE)')

.PHONY: bench-go
bench-go: ## run the benchmarks of the packages, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem ./...

##@ Maintain

.PHONY: check
check: fmt lint unit ## run before every commit: format, lint, unit tests

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format the code
	@for module in $(MODULES); do (cd "$$module" && $(GOLANGCI_LINT) fmt ./...) || exit 1; done

.PHONY: lint
lint: $(GOLANGCI_LINT) ## check the rules of .golangci.yml, formatting included
	@# The flags equal those of the binaries' builds. Otherwise Go would compile
	@# kube-apiserver a second time.
	@export CGO_ENABLED=0 GOFLAGS=-trimpath; for module in $(MODULES); do \
		echo "==> lint $$module"; \
		(cd "$$module" && $(GOLANGCI_LINT) run --allow-serial-runners ./...) || exit 1; \
	done

.PHONY: vulncheck
vulncheck: ## run before a release: known vulnerabilities in the code that the binary calls (asks vuln.go.dev)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./cmd/informd

.PHONY: schema
schema: ## generate the JSON Schemas in schema/ and in the Helm chart from the code
	cd test && $(GO) test ./schemagen -run '^(TestShipped|TestChart)$$' -count 1 -update

.PHONY: cli-docs
cli-docs: ## write docs/cli.md from the commands, and docs/metrics-and-alerts.md with its rules and dashboard
	$(GO) test ./internal/cli -run '^TestCLIPage$$' -count 1 -update
	$(GO) test ./internal/daemon -run '^TestMetricsPage$$' -count 1 -update

.PHONY: screenshots
screenshots: browser ## write the pictures of the page in docs/images: informd demo, after three minutes
	@$(MAKE) --no-print-directory build VERSION=dev
	cd test && $(GO) run ./webpage/screenshots -informd '$(abspath $(BIN))/informd' -out '$(CURDIR)/docs/images'

.PHONY: man
man: ## write the man pages of the commands to bin/man
	INFORMD_MAN_DIR='$(abspath $(BIN))/man' $(GO) test ./internal/cli -run '^TestManPages$$' -count 1

.PHONY: docs
docs: schema cli-docs ## write docs/configuration.md, docs/cli.md and the table of the chart's values
	cd test && $(GO) test ./schemagen -run '^(TestReference|TestValues)$$' -count 1 -update

.PHONY: tidy
tidy: ## update go.mod and go.sum
	@for module in $(ALL_MODULES); do (cd "$$module" && $(GO) mod tidy) || exit 1; done

.PHONY: tidy-check
tidy-check: ## fail if go.mod or go.sum is not tidy
	@for module in $(ALL_MODULES); do \
		echo "==> go mod tidy -diff in $$module"; \
		(cd "$$module" && $(GO) mod tidy -diff) || { echo "run 'make tidy' and commit the result" >&2; exit 1; }; \
	done

.PHONY: shape
shape: ## print the largest packages, types and functions, and repeated lines
	@cd test && $(GO) run ./shape

.PHONY: ci
ci: TAGS := long
ci: tidy-check lint build examples test test-long ## run everything that CI runs; the tests of `make test` run once
	@# Side by side: each run waits more than it computes.
	@$(MAKE) --no-print-directory -j2 --output-sync=target ci-chaos ci-independent

.PHONY: ci-chaos ci-pair ci-independent
ci-chaos:
	@$(MAKE) --no-print-directory chaos $(CI_CHAOS)
ci-pair: ## chaos with a pair for a minute; CI does not run it
	@$(MAKE) --no-print-directory chaos $(CI_PAIR)
ci-independent:
	@$(MAKE) --no-print-directory chaos-independent $(CI_INDEPENDENT)

##@ Release

.PHONY: snapshot
snapshot: $(GORELEASER) ## build what a release has, unsigned, into dist/: binaries and archives of all platforms, checksums
	@$(GORELEASER) check
	@$(GORELEASER) release --snapshot --clean --skip=sbom,sign

# The workflow release.yml calls both, with the notes of the release in NOTES.
.PHONY: release-tools release-binaries
release-tools: $(HELM)
	@mkdir -p '$(BIN)/tools' && cp '$(HELM)' '$(BIN)/tools/'
	@GOBIN='$(abspath $(BIN))/tools' $(GO) install github.com/sigstore/cosign/v3/cmd/cosign@$(COSIGN_VERSION)
	@GOBIN='$(abspath $(BIN))/tools' $(GO) install github.com/anchore/syft/cmd/syft@$(SYFT_VERSION)
release-binaries: $(GORELEASER)
	@PATH='$(abspath $(BIN))/tools':"$$PATH" $(GORELEASER) release --clean --release-notes '$(NOTES)'

.PHONY: clean
clean: ## remove bin/ and dist/
	rm -rf bin dist

# Builds in a separate directory and moves the complete binary, so that an
# interrupted build leaves no incomplete one.
$(GOLANGCI_LINT): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
$(HELM): PACKAGE := helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
$(GORELEASER): PACKAGE := github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
$(GOLANGCI_LINT) $(HELM) $(GORELEASER):
	@echo '==> building $(PACKAGE) into $(@D) (once; some minutes)'
	@mkdir -p '$(@D)'
	@tmp="$$(mktemp -d '$(@D)/build.XXXXXX')" && trap 'rm -rf "$$tmp"' EXIT && \
	GOFLAGS= GOBIN="$$tmp" $(GO) install $(PACKAGE) && \
	mv "$$tmp/$(@F)" '$@'

# Only unpacked: an installed package would start a service.
$(PROMETHEUS):
	@echo '==> unpacking the Debian package prometheus into $(TOOLS) (once)'
	@mkdir -p '$(TOOLS)'
	@tmp="$$(mktemp -d '$(TOOLS)/prometheus.XXXXXX')" && trap 'rm -rf "$$tmp"' EXIT && cd "$$tmp" && \
	{ apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } 2>/dev/null && \
	dpkg-deb -x prometheus_*.deb unpacked && rm -rf '$(TOOLS)/prometheus-debian' && mv unpacked '$(TOOLS)/prometheus-debian'
