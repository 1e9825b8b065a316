#!/usr/bin/env bash
# Measures one node at rest with 5,000 partitions and 500 groups, without and with members: memory, descriptors, wake-ups.
# Puts the table into docs/benchmarks.md. Takes about five minutes on an otherwise idle machine. Arguments are flags of
# `bench groups` in interop/bench, such as -partitions 500 -groups 50 -idle 10s; see its -help. Needs a limit of some
# thousand open files.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root/interop"
go run ./bench groups -output "$root/docs/benchmarks.md" "$@"
