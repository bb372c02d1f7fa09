# `make` lists the targets. What the tests need is installed where make is run by root on Debian.

SECONDS_PER_FUZZ_TARGET ?= 30
ORACLE_COMMANDS ?= 5000000
CRASH_SCHEDULES ?= 20000
KILL_CYCLES ?= 200
LINEAR_ROUNDS ?= 500
RDB_KEYS ?= 1000000
PIPE_FRAMES ?= 1000000
PIPE_KILLS ?= 5
QUEUE_KILLS ?= 20
ARGS ?=
TEST_TIMEOUT ?= 20m

.DEFAULT_GOAL := help
.PHONY: help build run deps test check format vet staticcheck levels fresh generate race fuzz fuzz-oracle crash linear chaos pipe queues load rdb conformance clients bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/kevy-server
	go build -o bin/kevy-server ./cmd/kevy-server

run: build ## build and serve on 127.0.0.1:6379 with data in ./data; ARGS="--port 7000" passes settings
	./bin/kevy-server $(ARGS)

deps: ## install, or list, the programs that the tests use
	scripts/deps.sh

# Where programs are missing the tests that use them are skipped; where none is, none may be.
test: ## every test, in at most 20 minutes
	@if scripts/deps.sh; then export KEVY_REQUIRE_TOOLS=1; fi; \
	go test -timeout $(TEST_TIMEOUT) ./... && (cd examples/sqlite && go vet ./... && go test -timeout $(TEST_TIMEOUT) ./...) && cd tests/queues/asynq && go vet ./...

check: format vet staticcheck levels fresh test race ## all that a change must pass

format: ## gofmt has nothing to change
	@changed=$$(gofmt -l .); [ -z "$$changed" ] || { echo "gofmt would change:"; echo "$$changed"; exit 1; }

vet: ## go vet
	go vet ./...

staticcheck: ## staticcheck
	go tool staticcheck ./...

levels: ## who may import whom
	go test -count=1 ./tests/levels

fresh: ## generated files are as the generators write them
	scripts/fresh.sh

generate: ## write the generated files anew
	go generate ./...

race: ## every test under the race detector
	@if scripts/deps.sh; then export KEVY_REQUIRE_TOOLS=1; fi; \
	go test -race -timeout 40m ./...

fuzz: ## every fuzz target for SECONDS_PER_FUZZ_TARGET (30)
	scripts/fuzz.sh $(SECONDS_PER_FUZZ_TARGET)

fuzz-oracle: ## ORACLE_COMMANDS (5000000) random commands against redis-server; KEVY_SEED repeats a run
	KEVY_REQUIRE_TOOLS=1 KEVY_ORACLE_COMMANDS=$(ORACLE_COMMANDS) go test -count=1 -timeout 0 -v ./tests/oracle

crash: ## CRASH_SCHEDULES (20000) random histories of crashes on a file system in memory; KEVY_SEED repeats a run
	KEVY_CRASH_SCHEDULES=$(CRASH_SCHEDULES) go test -count=1 -timeout 0 -v -run 'Crashes$$|^TestDamage$$' ./internal/engine
	go test -count=1 -timeout 0 -v -run '^TestRandomSchedules$$' ./aof -schedules $(CRASH_SCHEDULES)

linear: ## LINEAR_ROUNDS (500) rounds of concurrent clients whose answers one order must explain, with the race detector and without; KEVY_SEED repeats a run
	KEVY_LINEAR_ROUNDS=$(LINEAR_ROUNDS) go test -count=1 -timeout 0 -v ./tests/linear
	KEVY_LINEAR_ROUNDS=$(LINEAR_ROUNDS) go test -count=1 -timeout 0 -v -race ./tests/linear

chaos: ## KILL_CYCLES (200) times kill -9 under load and under consumers of the feed, for each fsync policy
	KEVY_REQUIRE_TOOLS=1 KEVY_KILL_CYCLES=$(KILL_CYCLES) go test -count=1 -timeout 0 -v -run '^TestKill(Consumers)?$$' ./tests/integration

pipe: ## PIPE_FRAMES (1000000) frames into Kafka through PIPE_KILLS (5) kills of server and pipe and restarts of the brokers
	KEVY_REQUIRE_TOOLS=1 KEVY_PIPE_FRAMES=$(PIPE_FRAMES) KEVY_PIPE_KILLS=$(PIPE_KILLS) go test -count=1 -timeout 0 -v -run '^TestPipeKafka$$' ./tests/integration

queues: ## BullMQ, Bull, asynq, Celery and Sidekiq; the first three through QUEUE_KILLS (20) times kill -9 of kevy-server, and of redis-server beside it
	@scripts/deps.sh
	KEVY_REQUIRE_NODE=1 KEVY_REQUIRE_TOOLS=1 KEVY_QUEUE_KILLS=$(QUEUE_KILLS) go test -count=1 -timeout 0 -v ./tests/queues

load: ## 10,000 idle connections, 1,000 active ones, 5,000 subscribers; make test has a twentieth of them
	KEVY_LOAD=full go test -count=1 -timeout 0 -v -run '^Test(IdleCrowd|Subscriber|Silent|Script|Storm)' ./tests/hostile

rdb: ## RDB_KEYS (1000000) keys from redis-server into a store and back, with time and memory of each step
	KEVY_REQUIRE_TOOLS=1 KEVY_RDB_KEYS=$(RDB_KEYS) go test -count=1 -timeout 0 -v -run '^TestRDBThereAndBack$$' ./tests/integration

conformance: ## Redis's own tests (fetched from Debian), profiles core and full; ARGS="unit/type/string" for some units
	@scripts/deps.sh
	KEVY_REQUIRE_TOOLS=1 KEVY_CONFORMANCE_PROFILES="core full" KEVY_CONFORMANCE_UNITS="$(ARGS)" \
	go test -count=1 -timeout 0 -v -run '^TestRedisTests$$' ./tests/conformance

clients: ## every row of the table in docs/clients.md, and its programs; asks for node and npm, too
	@scripts/deps.sh
	KEVY_REQUIRE_TOOLS=1 KEVY_REQUIRE_NODE=1 go test -count=1 -timeout $(TEST_TIMEOUT) -v ./tests/clients/...

bench: ## kevy-server beside redis-server: rate, CPU per command, memory per key, the feed and its followers, idle connections, scripts; ARGS=-feed for the feed alone, -pubsub for channels, -eval for scripts, -rewrites for writers beside rewrites, -idle-connections for those
	@scripts/deps.sh
	go run ./tests/bench $(ARGS)

clean: ## remove what make built
	rm -rf bin
