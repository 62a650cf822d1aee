# The commands of the house. A newcomer needs two: `make run` and `make test`.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 5s
SOAK     ?= 10m
BENCH    ?=
PACKAGES := ./...

.PHONY: build run test check bench soak clean fmt deps golden fuzz mutants examples vm

build: bin/coppice ## build bin/coppice

bin/coppice: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o $@ ./cmd/coppice

FORCE:

run: build ## build, and supervise the demonstration (needs node and python3; no root)
	bin/coppice run examples/demo

test: ## all tests, with the race detector
	$(GO) test -race -timeout 20m $(PACKAGES)

check: ## everything that must hold before a change lands, beside the tests
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'gofmt: run make fmt'; exit 1; }
	$(GO) vet $(PACKAGES)
	GOOS=darwin $(GO) vet ./tree/... ./config/... ./runtime/... ./actors/... ./cmd/...
	$(GO) tool staticcheck $(PACKAGES)
	$(GO) mod tidy -diff
	$(GO) mod verify
	$(MAKE) examples golden fuzz mutants

examples: build ## every example passes check and is in canonical form
	@for dir in examples/*/ examples/*/*/; do \
	  if ls $$dir*.hcl >/dev/null 2>&1; then \
	    bin/coppice check $$dir || exit 1; \
	    bin/coppice fmt --check $$dir || exit 1; \
	  fi; \
	done

golden: ## transcripts and golden files say what the code does now
	@before=$$(git status --porcelain -- "*testdata*" examples/strategies); \
	$(GO) test -count=1 ./tree ./config ./cmd/coppice -run 'Transcript|Golden|TestRules|TestBoardJSON' -update >/dev/null || exit 1; \
	after=$$(git status --porcelain -- "*testdata*" examples/strategies); \
	[ "$$before" = "$$after" ] || { echo 'golden files are not current:'; git status --porcelain -- "*testdata*" examples/strategies; exit 1; }

fuzz: ## each fuzz target for a moment (FUZZTIME=5s)
	@for pkg in $$($(GO) list $(PACKAGES)); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "fuzz $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg >/tmp/coppice-fuzz.$$$$ 2>&1 || { cat /tmp/coppice-fuzz.$$$$; rm -f /tmp/coppice-fuzz.$$$$; exit 1; }; \
	    rm -f /tmp/coppice-fuzz.$$$$; \
	  done; \
	done

mutants: ## each line of the oracle is proven by a mutant that it kills
	$(GO) test -count=1 -timeout 20m ./tree -run TestMutants -mutants

bench: build ## figures beside bare Go, and beside runit, s6 and supervisord where they are installed (BENCH='-only coppice')
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/bench ./cmd/bench
	bin/bench $(BENCH)

soak: build ## ten minutes with 1,000 workers of which 100 crash at random (SOAK=10m)
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/bench ./cmd/bench
	bin/bench -soak $(SOAK)

vm: ## what the tests of cgroup v2 and of PID 1 need: a kernel and qemu (Debian, as root)
	.ci/vm/prepare

fmt: ## canonical formatting of Go and HCL
	gofmt -w $$(git ls-files '*.go')
	bin/coppice fmt examples/demo

clean:
	rm -rf bin
