#!/usr/bin/env bash
# Builds the release into dist/: a static binary for each platform, the files to run it, and SHA256SUMS. Two runs of one
# commit, with one version and one Go, make the same bytes.
#
#   scripts/release.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: scripts/release.sh VERSION}
go=${GO:-go}
package=github.com/tidemark-io/tidemark/cmd/tidemark
platforms=(linux/amd64 linux/arm64)

rm -rf dist
mkdir -p dist
for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/}
	echo "release: $os $arch"
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch "$go" build -trimpath \
		-ldflags "-s -w -buildid= -X $package/command.version=$version" -o "dist/tidemark-$os-$arch" ./cmd/tidemark
done
cp LICENSE deploy/systemd/tidemark.service deploy/grafana/tidemark.json deploy/grafana/alerts.yaml dist/
(cd dist && sha256sum -- * >SHA256SUMS)

./scripts/check-release.sh "$version"
