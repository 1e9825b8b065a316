// Package command is the tidemark command line, one file per command.
//
// Commands read and write the [Streams] they are given and nothing else, so tests run them against buffers. What a
// command prints for people goes to a terminal as aligned tables and progress bars; into a pipe it goes plain, and with
// --output json as one JSON document (or one a line where the output has no end).
package command
