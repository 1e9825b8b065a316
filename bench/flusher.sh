#!/usr/bin/env bash
# Measures how long an acknowledgement takes with 1, 12, 100 and 1,000 partitions dirty at once, beside Apache Kafka 4.4.0 with
# and without flush.messages=1, and puts the table into docs/benchmarks.md. Takes about eight minutes on an otherwise idle machine.
# Arguments are flags of `bench flusher` in interop/bench, such as -rounds 3 -partitions 1,1000; see its -help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/interop/setup.sh"
cd "$root/interop"
go run ./bench flusher -output "$root/docs/benchmarks.md" "$@"
