// Package admin is the HTTP side of a node: its health, its readiness, its metrics, and a status page.
//
//	GET /healthz       200 while the process can do its work, 503 with the reason when it cannot
//	GET /readyz        200 when clients are served, 503 with what start-up waits for, and how far it is
//	GET /              a page for people: what the node is, what it holds, how much is written
//	GET /status        what the page shows, as JSON
//	GET /metrics       Prometheus text
//	GET /loglevel      the lowest level that is logged
//	PUT /loglevel      changes it, for callers on this machine only; the body is debug, info, warn or error
//	GET /groupmetrics  how detailed the metrics of consumer groups are
//	PUT /groupmetrics  changes it, for callers on this machine only; the body is off, group or partition
//	GET /debug/pprof/  profiles, for callers on this machine only
//
// It knows the node only through [Status], which it declares, and imports no other room.
package admin
