#!/usr/bin/env bash
# The full counts: more crashes, longer fuzzing, larger model tests. Takes some hours on two cores. What it printed last is
# kept in docs/nightly.md. Each step's size can be set, to try the script itself:
#
#   KILL_ROUNDS=2 POWER_CUTS=6 CHECKS=200 FUZZTIME=5s ./scripts/nightly.sh
set -euo pipefail
cd "$(dirname "$0")/.."

KILL_ROUNDS=${KILL_ROUNDS:-50}
POWER_CUTS=${POWER_CUTS:-50}
CHECKS=${CHECKS:-5000}
FUZZTIME=${FUZZTIME:-2m}

report=docs/nightly.md
{
	echo "# The last nightly run"
	echo
	echo "Made by \`make nightly\` (\`scripts/nightly.sh\`) on $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD)," \
		"$(go version | cut -d' ' -f3), $(nproc) cores."
	echo
	echo "| step | size | result | seconds |"
	echo "|---|---|---|---|"
} >"$report"

failed=0
# step NAME SIZE COMMAND...: run, time, and write a row.
step() {
	local name=$1 size=$2 began=$SECONDS result=passed
	shift 2
	echo "== $name ($size)"
	"$@" || { result=FAILED; failed=1; }
	echo "| $name | $size | $result | $((SECONDS - began)) |" >>"$report"
}

# models runs every property test with CHECKS draws.
models() {
	go test -timeout 3h -run 'Model|Model|Linear|Agrees' ./batch/ ./kafkalog/ ./logdir/ ./meta/... ./partition/ ./coordinator/... \
		./vfs/... -rapid.checks="$CHECKS"
}

./interop/setup.sh
step "all tests, race detector, three times" "3" go test -race -count=3 -timeout 2h ./...
step "model tests" "$CHECKS runs each" models
step "fuzzing, every target" "$FUZZTIME each" make fuzz FUZZTIME="$FUZZTIME"
step "power cuts of the whole server under load" "$POWER_CUTS" \
	env NODE_POWER_CUTS="$POWER_CUTS" go test -timeout 2h -count=1 -run 'PowerCuts' ./node/
step "kill -9 of the process under load" "$KILL_ROUNDS rounds" \
	bash -c "cd interop && INTEROP_CRASH_ROUNDS=$KILL_ROUNDS INTEROP_GROUP_KILLS=10 go test -count=1 -timeout 2h ./crash/"
step "real clients and Apache Kafka" "all" make interop
exit $failed
