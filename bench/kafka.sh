#!/usr/bin/env bash
# Measures tidemark beside Apache Kafka 4.4.0 in one run, and puts the tables into docs/benchmarks.md: throughput of producing and
# consuming, end-to-end latency, cold reads beside sendfile, and starts with 5,000 partitions. Takes about twenty-five minutes on
# an otherwise idle machine. Arguments are flags of interop/bench, such as -rounds 3 -parts throughput; see its -help. Needs a limit
# of some thousand open files.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/interop/setup.sh"
cd "$root/interop"
go run ./bench -output "$root/docs/benchmarks.md" "$@"
