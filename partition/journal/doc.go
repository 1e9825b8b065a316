// Package journal is one sequential file of a data directory that makes the newest records of many logs durable with a
// single sync.
//
// A sync is per file, so a thousand logs with one small append each need a thousand. The journal takes those appends
// together as one round: a single write and a single sync. The logs' own files hold the same bytes, written already and
// synced later, in the background, by whoever keeps the logs. After a power cut [Replay] puts back into the logs' files what
// these did not keep, before any log is opened; from there on they are recovered as if they had been synced themselves.
//
// What a round holds is bytes and their place: this many bytes of that segment file of that partition, from that position
// on. Putting them back is the same as not having lost them, so it may be done any number of times.
//
// The file has two sides. Rounds are added to one until it is full, then to the other, which is free by then if everything
// in it has been synced in the logs' own files ([Writer.Free]). A data directory that was closed in order has no journal.
package journal
