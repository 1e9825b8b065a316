#!/usr/bin/env bash
# Installs the real clients and the real broker that the interop tests and benchmarks talk to. Safe to run again: what
# is already installed in the same version is left alone.
#
# Needs on the machine: go with a C compiler, a JDK 17 with mvn, python3 with venv, node with npm, and apt-get (as root, or
# with sudo) unless kcat and chromium are there. Puts everything but those two under $INTEROP_CACHE, by default .cache beside this script.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${INTEROP_CACHE:-$here/.cache}
mkdir -p "$cache"

# The output of a package client may name the registry that it was pointed at, which is private to the machine: it is cut out.
quietly() {
	local log
	log=$(mktemp)
	if ! "$@" >"$log" 2>&1; then
		echo "interop setup: failed: $1 (the end of what it printed follows)" >&2
		tail -n 30 "$log" | sed -E 's#[a-z+]+://[^[:space:]"'"'"'>)]+#(address)#g; s#(from|to|host) [A-Za-z0-9.-]+\.[a-z]{2,}(:[0-9]+)?#\1 (host)#g' >&2
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
}

# A busy server may fail a request; three tries distinguish that from a real refusal.
persistently() {
	local try
	for try in 1 2 3; do
		if quietly "$@"; then return 0; fi
		echo "interop setup: try $try of 3 failed" >&2
	done
	return 1
}

# fresh STAMP FILE...: whether STAMP was written for the present content of these files
fresh() {
	local stamp=$1
	shift
	[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(cat "$@" | sha256sum)" ]
}
stamp() {
	local stamp=$1
	shift
	cat "$@" | sha256sum >"$stamp"
}

install_kafka() {
	local lib=$cache/kafka
	fresh "$lib.stamp" "$here/kafka/pom.xml" && return
	echo "interop setup: Apache Kafka's broker, clients and tools"
	rm -rf "$lib" "$lib.stamp"
	persistently mvn -B -q -f "$here/kafka/pom.xml" dependency:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory="$lib"
	stamp "$lib.stamp" "$here/kafka/pom.xml"
}

# install_java_clients: every version of clients.txt in a directory of its own.
install_java_clients() {
	local lib=$cache/java-clients
	fresh "$lib.stamp" "$here/kafka/clients-pom.xml" "$here/kafka/clients.txt" && return
	echo "interop setup: older Java clients"
	rm -rf "$lib" "$lib.stamp"
	local version
	while read -r version; do
		persistently mvn -B -q -f "$here/kafka/clients-pom.xml" dependency:copy-dependencies "-Dkafka.version=$version" \
			-DincludeScope=runtime -DoutputDirectory="$lib/$version"
	done <"$here/kafka/clients.txt"
	stamp "$lib.stamp" "$here/kafka/clients-pom.xml" "$here/kafka/clients.txt"
}

# install_python DIRECTORY REQUIREMENTS
install_python() {
	local venv=$cache/$1 requirements=$here/peers/$2
	fresh "$venv.stamp" "$requirements" && return
	echo "interop setup: Python clients ($2)"
	rm -rf "$venv" "$venv.stamp"
	quietly python3 -m venv "$venv"
	persistently "$venv/bin/pip" install --disable-pip-version-check --quiet --only-binary :all: -r "$requirements"
	stamp "$venv.stamp" "$requirements"
}

# install_node DIRECTORY PACKAGE
install_node() {
	local js=$cache/$1 package=$here/peers/$2
	fresh "$js.stamp" "$package" && return
	echo "interop setup: kafkajs ($2)"
	rm -rf "$js" "$js.stamp"
	mkdir -p "$js"
	cp "$package" "$js/"
	persistently npm install --prefix "$js" --no-package-lock --no-audit --no-fund --ignore-scripts --update-notifier=false
	stamp "$js.stamp" "$package"
}

# install_older: the older clients for Go, in a module of their own since their names are those of the newer ones.
install_older() {
	local bin=$cache/older sources=("$here"/older/go.mod "$here"/older/go.sum "$here"/older/*.go)
	fresh "$bin.stamp" "${sources[@]}" && return
	echo "interop setup: older Go clients, one with librdkafka 1.x"
	rm -rf "$bin" "$bin.stamp"
	mkdir -p "$bin"
	(cd "$here/older" && CGO_ENABLED=1 persistently go build -trimpath -o "$bin/older" .)
	stamp "$bin.stamp" "${sources[@]}"
}

install_seaweedfs() {
	local bin=$cache/seaweedfs
	fresh "$bin.stamp" "$here/seaweedfs/go.mod" "$here/seaweedfs/go.sum" && return
	echo "interop setup: SeaweedFS, an object store that speaks S3 (some minutes)"
	rm -rf "$bin" "$bin.stamp"
	mkdir -p "$bin"
	(cd "$here/seaweedfs" && CGO_ENABLED=0 persistently go build -trimpath -ldflags '-s -w' -o "$bin/weed" \
		github.com/seaweedfs/seaweedfs/weed)
	stamp "$bin.stamp" "$here/seaweedfs/go.mod" "$here/seaweedfs/go.sum"
}

# install_debian PROGRAM: installs the package of that name.
install_debian() {
	command -v "$1" >/dev/null && return
	echo "interop setup: $1"
	local root=()
	[ "$(id -u)" = 0 ] || root=(sudo)
	# A fresh machine has no package lists yet; then the first try fails at once.
	if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1" >/dev/null 2>&1; then
		persistently "${root[@]}" apt-get update -q
		persistently "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1"
	fi
}

for tool in go cc java mvn python3 node npm; do
	command -v "$tool" >/dev/null || { echo "interop setup: $tool is not installed" >&2; exit 1; }
done
install_kafka
install_java_clients
install_python venv requirements.txt
install_python venv-older requirements-older.txt
install_node kafkajs package.json
install_node kafkajs-older older/package.json
install_older
install_seaweedfs
install_debian kcat
install_debian chromium
