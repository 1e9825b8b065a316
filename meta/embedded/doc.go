// Package embedded keeps the metadata log of one node in one bbolt file.
//
// Every append is one transaction that checks the head, stores the entry and moves the head, and is synced before it
// returns. The file is locked while it is open, so a second process cannot start on it.
//
// A file that exists is whole: it is made under another name and renamed when its first transaction is on disk. So an
// empty, cut or damaged file is never mistaken for a new one. [Open] reads the file page by page and checks all of it
// before bbolt maps it into memory, and refuses with the file's name and what was found.
package embedded
