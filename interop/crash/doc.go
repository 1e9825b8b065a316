// Package crash kills the server under load, again and again, and holds it to every promise that it made: see package
// ledger. INTEROP_CRASH_ROUNDS is how often (50 unless set), INTEROP_CRASH_SEED fixes when.
package crash
