// Package memfs is a file system in memory that can lose its power.
//
// [FS.Crash] answers the question that a real disk answers too rarely: what may be left if the machine stops now? It
// returns a new file system that holds everything that was made durable, and a random part of the rest:
//
//   - Bytes. Each sector that was written and not synced is kept or lost by itself, so that later writes may survive
//     earlier ones; with Torn a sector may hold the front of the new bytes and the back of the old ones.
//   - Length. A file that grew has its durable length, its newest one or one in between. What lies below it and was
//     lost reads as the old bytes, or as zeros where there were none.
//   - Truncation. It is kept or lost as a whole and before what was written after it: new bytes are never mixed with an
//     old tail that had been cut.
//   - Names. Each file made, linked or removed, and each rename, is kept or lost by itself unless its directory was
//     synced. A rename is kept whole or not at all, so there is no moment at which a file has neither name, and a name
//     that was renamed over leads to the old file or to the new one.
//
// A sync that fails can do what it does on Linux, which is worse than nothing: see the Drop of a fault in package faultfs.
//
// That is more than what a journalling file system loses and less than POSIX allows. In two points it is stricter than
// ext4, on purpose: syncing a new file does not make its name durable, and changes in one directory are not ordered.
//
// The crashed file system and its copy share pages and copy them on writing. A small append or sync costs time and
// memory for the pages it touches, not for the file.
package memfs
