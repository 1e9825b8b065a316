#!/usr/bin/env bash
# The full counts: more crashes, longer fuzzing, larger model tests. Takes some hours on two cores. What it printed last is
# kept in docs/nightly.md. The size of each step can be set, and STEPS names the steps to run (all by default); the page lists
# a step that was left out as such:
#
#   KILL_ROUNDS=2 POWER_CUTS=6 CHECKS=200 FUZZTIME=5s STEPS="models kills" ./scripts/nightly.sh
set -euo pipefail
cd "$(dirname "$0")/.."

KILL_ROUNDS=${KILL_ROUNDS:-1000}
POWER_CUTS=${POWER_CUTS:-10000}
CHECKS=${CHECKS:-5000}
FUZZTIME=${FUZZTIME:-2m}
WAL_RUNS=${WAL_RUNS:-100000}
STREAM_KILLS=${STREAM_KILLS:-50}
TAKEOVERS=${TAKEOVERS:-20}
LIVES=${LIVES:-12}
RESTARTS=${RESTARTS:-10}
STEPS=${STEPS:-tests models fuzz cuts starts ext4 kills wal streams s3 restarts interop}

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
# step KEY NAME SIZE COMMAND...: run if asked for, time, and write a row.
step() {
	local key=$1 name=$2 size=$3 began=$SECONDS result=passed
	shift 3
	if [[ " $STEPS " != *" $key "* ]]; then
		echo "| $name | $size | not run this time | |" >>"$report"
		return
	fi
	echo "== $name ($size)"
	local code=0
	"$@" || code=$?
	case $code in
	0) ;;
	75) result="not run: this machine does not allow it" ;;
	*) result=FAILED failed=1 ;;
	esac
	echo "| $name | $size | $result | $((SECONDS - began)) |" >>"$report"
}

# models runs every property test with CHECKS draws, and as many logs under failures and power cuts.
models() {
	LOG_FAULT_RUNS="$CHECKS" go test -count=1 -timeout 3h ./batch/ ./coordinator/ ./kafkalog/ ./logdir/ ./meta/ ./stream/ ./vfs/memfs/ \
		-rapid.checks="$CHECKS"
}

kills() {
	(cd interop && INTEROP_CRASH_ROUNDS=$KILL_ROUNDS INTEROP_GROUP_KILLS=${GROUP_KILLS:-10} go test -count=1 -timeout 2h ./crash/)
}

cuts() {
	make cuts CUTS="$POWER_CUTS"
}

# wal runs the model of the write-ahead log of streams, with a new seed each time.
wal() {
	STREAM_WAL_RUNS=$WAL_RUNS go test -count=1 -timeout 3h -run WAL15 ./stream/
}

# streams kills, pauses and overtakes processes on a directory, restarts engines, and loses metadata.
streams() {
	TIDEMARK_TEST_KILLS=$STREAM_KILLS TIDEMARK_TEST_TAKEOVERS=$TAKEOVERS TIDEMARK_TEST_LIVES=$LIVES \
		go test -count=1 -timeout 2h -run 'EndToEnd|MadeAgain|Killed|Overtaken|F08_AP|F34_F' ./stream/
}

# s3 does the same on a real S3 server and a real etcd.
s3() {
	(cd interop && TIDEMARK_TEST_TAKEOVERS=$TAKEOVERS TIDEMARK_TEST_LIVES=$LIVES TIDEMARK_TEST_KILLS=$STREAM_KILLS \
		go test -p 1 -count=1 -timeout 2h ./s3/ ./twoprocess/)
}

# restarts stops and kills a server every half minute while kafka-go writes to it.
restarts() {
	(cd interop && INTEROP_RESTARTS=$RESTARTS INTEROP_RESTART_EVERY=30s go test -count=1 -timeout 1h -run F74 .)
}

./interop/setup.sh
step tests "all tests, race detector" "3 times" go test -race -count=3 -timeout 2h ./...
step models "model tests" "$CHECKS runs each" models
step fuzz "fuzzing, every target" "$FUZZTIME each" make fuzz FUZZTIME="$FUZZTIME"
step cuts "power cuts of the whole server under load" "$POWER_CUTS" cuts
step starts "a start after kill -9, 100 partitions of 20 sealed segments" "64 MiB each" ./scripts/starts.sh --must
step ext4 "power cuts of a real ext4, in an image" "all" ./scripts/ext4.sh --must
step kills "kill -9 of the process under load; of a server whose groups rebalance" "$KILL_ROUNDS; 2 x ${GROUP_KILLS:-10}" kills
step wal "the write-ahead log of streams against its model" "$WAL_RUNS" wal
step streams "streams in processes that are killed, and overtaken; lives of an engine" "$STREAM_KILLS; $TAKEOVERS; $LIVES" streams
step s3 "streams over a real S3 server and etcd: lives of an engine; processes killed; paused, and killed" "$LIVES; $STREAM_KILLS; 2 x $TAKEOVERS" s3
step restarts "writers of kafka-go over restarts, 30 s apart" "$RESTARTS" restarts
step interop "real clients and Apache Kafka" "all" make interop
exit $failed
