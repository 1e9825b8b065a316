#!/usr/bin/env bash
# Measures tidemark beside Apache Kafka 4.4.0 in one run and puts the table into docs/benchmarks.md. Takes about a quarter
# of an hour on an otherwise idle machine. Arguments are flags of interop/bench, such as -rounds 3; see its -help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/interop/setup.sh"
cd "$root/interop"
go run ./bench -output "$root/docs/benchmarks.md" "$@"
