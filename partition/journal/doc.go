// Package journal implements a sequential file in a data directory that makes the newest records of many logs durable
// with a single sync.
//
// A sync is per file, so a thousand logs with one small append each need a thousand syncs. The journal takes those
// appends together as one round: a single write and a single sync. The logs' own files hold the same bytes, already
// written, and are synced later, in the background, by the owner of the logs. After a power cut [Replay] restores to
// the logs' files what these did not keep, before any log is opened; from then on the logs are recovered as if they had
// been synced themselves.
//
// A round holds bytes and their location: so many bytes of a segment file of a partition, from a given position on.
// Restoring them is idempotent, so it may be repeated any number of times.
//
// The file has two sides. Rounds are added to one until it is full, then to the other, which is free if everything in
// it has meanwhile been synced in the logs' own files ([Writer.Free]). What it holds of a log that cannot be synced any
// more is copied to a file of its own first ([Writer.SetAside]), which Replay restores too. A data directory that was
// closed cleanly has no journal.
package journal
