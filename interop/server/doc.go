// Package server starts the servers that interop tests and benchmarks talk to: tidemark, built from the tree around
// this module, and Apache Kafka, from the jars that setup.sh installed. Each runs as a process of its own on a free
// loopback port with its own data directory, can be stopped, killed and started again on the same port and data, and
// dies with the process that started it.
package server
