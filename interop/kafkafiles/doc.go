// Package kafkafiles has a real Apache Kafka write log directories, and records what Kafka itself answers about them, to
// test another reader of the same files against.
//
// The directories hold what brokers leave behind: batches of every codec, idempotent and not, transactions that were
// committed, aborted and left open, timestamps out of order and set by the broker, several segments, several leader
// epochs, and a log whose start was moved; once after a clean stop and once after kill -9.
//
// kafkafiles/golden generates the small set that is kept in kafkalog/testdata.
package kafkafiles
