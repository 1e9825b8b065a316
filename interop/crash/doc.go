// Package crash kills the server under load, again and again, and holds it to every promise that it made: see package
// ledger. TIDEMARK_CRASH_ROUNDS is how often (5 unless set), TIDEMARK_CRASH_SEED fixes when.
package crash
