// Package embedded keeps the metadata log of one node in one bbolt file.
//
// Every append is one transaction that checks the head, stores the entry and moves the head, and is synced before it
// returns. The file is locked while it is open, so a second process cannot start on it.
//
// A file that exists is complete: it is created under a temporary name and renamed once its first transaction is on
// disk. So an empty, truncated or damaged file is never mistaken for a new one. [Open] reads the file page by page
// and checks all of it before bbolt maps it into memory, and refuses with the file's name and what was found.
package embedded
