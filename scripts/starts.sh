#!/usr/bin/env bash
# Kills a server with 100 partitions of 20 sealed segments of 64 MiB each, and holds the bytes that its next start reads against
# its active segments. The partitions share the sealed files, so that it takes 2 GiB of a disk. Without as much space it says so
# and ends with 0, and with 75 when it is called as 'starts.sh --must'.
set -euo pipefail
cd "$(dirname "$0")/.."

# roomy tells whether a directory is on a disk, not in memory, with 4 GiB of free space.
roomy() {
	[[ -d $1 && $(stat -f -c %T "$1") != tmpfs && $(df --output=avail -B1 "$1" | tail -1) -ge $((4 << 30)) ]]
}

for dir in "${TMPDIR:-/tmp}" .; do
	if roomy "$dir"; then
		temp=$(mktemp -d "$dir/tidemark-starts.XXXXXX")
		trap 'rm -rf --one-file-system "$temp"' EXIT
		TMPDIR=$(cd "$temp" && pwd) NODE_SEGMENT_BYTES=67108864 go test -count=1 -timeout 30m -v -run F77_AStartAfterAKill ./node/
		exit
	fi
done
echo "a start at full size: NOT RUN, it needs 4 GiB of free space on a disk"
[[ ${1:-} != --must ]] || exit 75
