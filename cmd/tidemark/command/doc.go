// Package command is the tidemark command line, one file per command.
//
// Commands read and write only the [Streams] they are given, so tests run them against buffers. Output for people goes to
// a terminal as aligned tables and progress bars, and into a pipe without the bars; with --output json it is one JSON
// document, or one a line where the output has no end.
package command
