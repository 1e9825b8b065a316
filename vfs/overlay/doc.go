// Package overlay shows a file system as it is and keeps every change to itself.
//
// Tools look at a log that may be damaged, or in use, by opening it as the server would: recovery then cuts, rebuilds
// and renames as it likes, in memory, and the files stay as they are. Only what changes is held in memory, in pages; a
// large file that is cut or appended to costs what was written, not what is there.
package overlay
