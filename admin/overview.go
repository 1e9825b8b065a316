package admin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// Overview is the state of a node at a glance.
type Overview struct {
	Version   string     `json:"version"`
	Cluster   string     `json:"cluster"` // "" until it is known
	Node      int32      `json:"node"`
	Started   time.Time  `json:"started"`
	Now       time.Time  `json:"now"`
	Healthy   bool       `json:"healthy"`
	Readiness Readiness  `json:"readiness"`
	Listeners []Listener `json:"listeners"`
	Disk      Disk       `json:"disk"`
	Topics    []Topic    `json:"topics"` // by name
	Groups    []Group    `json:"groups"` // by name; empty where there are none
}

// Listener is an address that the node listens on.
type Listener struct {
	Name       string `json:"name"`
	Address    string `json:"address"`
	Advertised string `json:"advertised,omitempty"` // the address given to clients, if it may differ
}

// Disk is the space on the file system of the data, in bytes. Total is 0 if it is not known.
type Disk struct {
	Free    int64 `json:"free"`
	Total   int64 `json:"total"`
	Reserve int64 `json:"reserve"` // below it producers are refused; 0 if there is none
}

// Topic is the sum of a topic's partitions.
type Topic struct {
	Name       string `json:"name"`
	Internal   bool   `json:"internal,omitempty"`
	Partitions int    `json:"partitions"`
	Offline    int    `json:"offline,omitempty"` // partitions that could not be opened or accept no records
	Records    int64  `json:"records"`           // offsets from log start to high watermark
	Bytes      int64  `json:"bytes"`             // of the record files

	// What was written since the node started. The difference of two answers gives a rate.
	WrittenRecords int64 `json:"written_records"`
	WrittenBytes   int64 `json:"written_bytes"`
}

// Group is a consumer group.
type Group struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Members int    `json:"members"`
	Lag     int64  `json:"lag"`     // records behind the high watermarks, of all partitions with a committed offset
	MaxLag  int64  `json:"max_lag"` // of the partition that is furthest behind
}

func overview(status Status) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, status.Overview())
	})
}

// statusPage is the whole page: it loads nothing but /status.
//
//go:embed status.html
var statusPage string

// page serves the page, and forbids browsers to run or load anything outside of it.
func page() http.Handler {
	policy := "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; style-src " + hashOf(statusPage, "style") + "; script-src " + hashOf(statusPage, "script")
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write([]byte(statusPage))
	})
}

// hashOf returns the source expression that allows the single element of a kind in a page.
func hashOf(page, element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	text, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
