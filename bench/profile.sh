#!/usr/bin/env bash
# Profiles tidemark while one client produces to it and consumes from it, and puts the table of where the processor time goes into
# docs/performance.md. Needs perf(1) and the right to use it; takes a minute. Arguments are flags of `bench profile`; see its -help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root/interop"
go run ./bench profile -output "$root/docs/performance.md" "$@"
