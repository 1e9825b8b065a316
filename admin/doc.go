// Package admin is the HTTP side of a node: whether it lives, whether it is ready, what it measures, and what it is doing.
//
//	GET /healthz       200 while the process can do its work, 503 with the reason when it cannot
//	GET /readyz        200 when clients are served, 503 with what start-up waits for, and how far it is
//	GET /metrics       Prometheus text
//	GET /debug/pprof/  profiles, for callers on this machine only
//
// It knows the node through [Status], which it declares, and imports no other room.
package admin
