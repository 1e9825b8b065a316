// Package ledger is the oracle of every crash test: it records what a server told its clients, and checks afterwards that
// the server kept its promises.
//
// A [Ledger] keeps one entry for each offset that was acknowledged to a writer or shown to a reader. [StartLoad] runs
// real clients that fill it while the server is killed and restarted under them; [Ledger.Verify] reads every partition
// back and reports each broken promise:
//
//   - an acknowledged record must be there, once, at its offset, with its bytes;
//   - what a reader was shown must stay where it was shown;
//   - no offset is ever answered with two different contents;
//   - no record that a writer sent once stands at two offsets, acknowledged or not;
//   - a partition has no holes, and its records of one writer are in the order in which it sent them;
//   - records whose deletion was acknowledged are gone, and the log does not start later than somebody asked for;
//   - a group's stored offset is none below one that was acknowledged, and none that was not sent.
//
// The package knows the server only as a Kafka address, so the same oracle judges a process under kill -9, a node on a
// file system in memory that loses power, and Apache Kafka.
package ledger
