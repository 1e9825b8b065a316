# Every target works from a clean clone on a machine that has Go (and, for interop, Python, Java, Maven, Node and npm).

GO      ?= go
VERSION ?= dev
LDFLAGS := -s -w -X github.com/tidemark-io/tidemark/cmd/tidemark/command.version=$(VERSION)
FUZZTIME ?= 60s
CUTS    ?= 100
CUTS_SEED ?= $(shell date +%s)

.PHONY: build release test cuts starts lint interop bench bench-kafka bench-flusher nightly fuzz clean

build: ## bin/tidemark, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/tidemark ./cmd/tidemark

release: ## dist/: static binaries for linux amd64 and arm64, checksums, unit file, board; VERSION=v1.2.3
	GO='$(GO)' ./scripts/release.sh '$(if $(filter dev,$(VERSION)),$(shell git describe --tags --always --dirty 2>/dev/null || echo dev),$(VERSION))'

test: ## unit, property, fault and crash tests with the race detector; under ten minutes on two cores
	$(GO) test -race -timeout 20m ./...
	$(GO) test -count=1 -run F62_TinyRecords ./stream/

cuts: ## 100 power cuts of the whole server under load, others each time; CUTS=10000 is the full count, CUTS_SEED=n repeats a run
	NODE_POWER_CUTS=$(CUTS) NODE_POWER_CUTS_SEED=$(CUTS_SEED) $(GO) test -count=1 -timeout 3h -run PowerCutsUnderLoad ./node/

starts: ## a start after kill -9 with 128 GiB of records, of which it reads the active segments; takes 2 GiB of a disk
	./scripts/starts.sh

lint: ## formatting, vet, and the rules of the house
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags ext4 ./node/
	cd interop && $(GO) vet ./...
	cd interop/older && $(GO) vet ./...
	$(GO) test ./internal/house/

interop: ## real clients, a real Apache Kafka, kill -9, and faults of the machine; installs the peers first
	./interop/setup.sh
	cd interop && $(GO) test -p 1 -count=1 -timeout 40m $$($(GO) list ./... | grep -v '/faults$$')
	cd interop && $(GO) test -count=1 -timeout 10m -v ./faults/

bench: ## benchmarks of the parts; compare two runs with benchstat
	$(GO) test -run '^$$' -bench . -benchmem ./batch/ ./kafkalog/ ./partition/ ./broker/

bench-kafka: ## the whole server beside Apache Kafka; writes the table in docs/benchmarks.md
	./interop/setup.sh
	./bench/kafka.sh

bench-flusher: ## acknowledgements by the number of partitions written to at once, beside Apache Kafka; writes docs/benchmarks.md
	./bench/flusher.sh

fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

nightly: ## the full counts; the result is kept in docs/nightly.md
	./scripts/nightly.sh

clean:
	rm -rf bin dist
