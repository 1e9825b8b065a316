#!/usr/bin/env bash
# Checks the files in dist/ against what a release promises: the checksums match, the binaries are for their platform, static
# and of the right version, and one that this machine can run does run.
#
#   scripts/check-release.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/../dist"

version=${1:?usage: scripts/check-release.sh VERSION}
fail() { echo "check-release: $*" >&2; exit 1; }

sha256sum --quiet -c SHA256SUMS
[ "$(wc -l <SHA256SUMS)" = "$(find . -type f ! -name SHA256SUMS | wc -l)" ] || fail "a file has no sum"

# machine FILE: the platform in an ELF header, bytes 18 and 19
machine() { od -An -tx1 -j18 -N2 "$1" | tr -d ' \n'; }
[ "$(machine tidemark-linux-amd64)" = 3e00 ] || fail "tidemark-linux-amd64 is for another platform"
[ "$(machine tidemark-linux-arm64)" = b700 ] || fail "tidemark-linux-arm64 is for another platform"
for binary in tidemark-linux-*; do
	[ -x "$binary" ] || fail "$binary is not executable"
	# A dynamic program names its loader.
	if grep -aqE '/lib(64)?/ld-(linux|musl)' "$binary"; then fail "$binary is not static"; fi
	grep -aqF "$version" "$binary" || fail "$binary does not hold its version"
	if grep -aqF "$(dirname "$PWD")/" "$binary"; then fail "$binary holds a path of the machine that built it"; fi
done

case $(uname -m) in
x86_64) here=tidemark-linux-amd64 ;;
aarch64) here=tidemark-linux-arm64 ;;
*) here= ;;
esac
if [ -n "$here" ]; then
	"./$here" version | grep -F "tidemark $version (" >/dev/null || fail "$here says $("./$here" version)"
fi
echo "release: dist/ is complete"
