// Package crash repeatedly kills the server under load, and checks every promise that it made: see package ledger.
// INTEROP_CRASH_ROUNDS is how often (50 unless set), INTEROP_CRASH_SEED fixes when.
package crash
