#!/usr/bin/env bash
# Cuts the power of a real ext4 in an image under a whole server, records and metadata alike. Needs root, mkfs.ext4 and a loop
# device that can be mounted; without them it says so and exits with 0, or with 75 when called as 'ext4.sh --must'.
set -euo pipefail
cd "$(dirname "$0")/.."

# mounts reports whether an ext4 image can be created and mounted on this machine.
mounts() {
	local dir result=0
	[[ $(id -u) == 0 ]] && command -v mkfs.ext4 >/dev/null || return 1
	dir=$(mktemp -d)
	mkdir "$dir/mnt"
	truncate -s 16M "$dir/image"
	mkfs.ext4 -q -F "$dir/image" && mount -o loop "$dir/image" "$dir/mnt" 2>/dev/null && umount "$dir/mnt" || result=1
	rm -rf --one-file-system "$dir"
	return $result
}

if ! mounts; then
	echo "power cuts of a real ext4: NOT RUN, they need root, mkfs.ext4 and a loop device that can be mounted"
	[[ ${1:-} != --must ]] || exit 75
	exit 0
fi
go test -count=1 -tags ext4 -run Ext4 ./node/
