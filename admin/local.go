package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// localOnly admits only callers on this machine. Taking a profile exposes what clients sent and stops the world, and a
// change of the log level can fill a disk, so both are for callers who could do as much anyway. A proxy on this machine
// acts for somebody else, and so does a browser that was sent here under another name: both are refused.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.RemoteAddr) || !isLocalName(r.Host) || isForwarded(r.Header) {
			http.Error(w, "this is for callers on this machine", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(peer string) bool {
	addr, err := netip.ParseAddrPort(peer)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

// isLocalName reports whether a Host header names this machine as such.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func isForwarded(h http.Header) bool {
	return h.Get("Forwarded") != "" || h.Get("X-Forwarded-For") != "" || h.Get("X-Real-Ip") != ""
}
