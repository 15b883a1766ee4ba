# The tools have a module of their own, which pins them.
TOOL = go tool -modfile=tools/go.mod
FUZZ ?= 5000x

.PHONY: check format vet staticcheck test race mutants crash fuzz bench

check: format vet staticcheck race # what a change must pass; the import arrows are a test

format:
	@unformatted=$$($(TOOL) gofumpt -l .) && test -z "$$unformatted" || { echo "gofumpt -w these:"; echo "$$unformatted"; exit 1; }

vet:
	go vet ./...
	go vet -tags crashpoints ./...
	go vet -tags mutants ./...

staticcheck:
	$(TOOL) staticcheck ./...
	$(TOOL) staticcheck -tags crashpoints,mutants ./...

test:
	go test ./...

# SQLite itself is one package of translated C. The compiler takes more than ten minutes to instrument it, so it is left out.
race:
	go test -race -gcflags='github.com/ncruces/go-sqlite3-wasm/...=-race=false' ./...

mutants: # every planted bug must be found by the test that docs/testing.md names
	EINMAL_MUTANTS=1 go test -count=1 -timeout 30m -run '^TestEveryMutant' ./internal/mutant

crash: # ten times as many kills, races and power losses as go test
	EINMAL_CRASH_KILLS=2600 go test -count=1 -timeout 30m ./internal/crashpoint
	EINMAL_POWER_ACKS=100000 go test -count=1 -timeout 30m -run '^TestPowerLoss' ./sqlitestore
	EINMAL_STORETEST_ROUNDS=10 go test -count=1 -timeout 30m -run '^TestStore$$' ./memstore ./sqlitestore

fuzz: # every fuzz test in turn, for so many inputs (FUZZ=5m: for so long)
	@set -e; for folder in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for name in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$folder/*_test.go | cut -c6-); do \
			echo "$$folder $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZ) -fuzzminimizetime 100x $$folder; \
		done; \
	done

bench:
	go run ./bench
