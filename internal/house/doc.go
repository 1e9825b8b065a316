// Package house tests the rules of this repository: which package may import which, which third-party modules a public
// package may reach, and what no package may do behind its callers' backs. It has no code to import.
//
// The tables in imports_test.go are the drawing in docs/design.md, made exact. Change both together.
package house
