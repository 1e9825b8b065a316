// Package interop tests tidemark against the clients, the tools and the broker that people really use. It is a module of
// its own so that none of them becomes a dependency of tidemark.
//
// setup.sh installs the peers; then
//
//	go test ./...
//
// in this directory builds tidemark from the tree around it, starts it on a free port, and lets every peer write what
// franz-go reads and read what franz-go wrote: each codec, idempotent and not, headers, nulls, empty values, and values
// of 20 MiB. Consumer groups of each client form, lose members and continue, and Kafka's tools print the same about this
// server as about Kafka's own broker. Other tests exchange the files on disk with Apache Kafka, run franz-go's own test
// suite, and kill the server under load. A peer that is missing fails the tests; nothing is skipped.
//
// INTEROP_SERVER=kafka runs the same tests with Apache Kafka as the server, which shows that the tests require nothing
// that Kafka itself does not do.
package interop
