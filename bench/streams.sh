#!/usr/bin/env bash
# Measures the stream engine on object stores, a directory and a real S3 server, and puts the table into
# docs/benchmarks.md. Takes some minutes on an otherwise idle machine. Arguments are flags of interop/bench/streams, such as
# -stores dir; see its -help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/interop/setup.sh"
cd "$root/interop"
go run ./bench/streams -output "$root/docs/benchmarks.md" "$@"
