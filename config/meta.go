package config

import (
	"errors"
	"strings"
)

// metaKeys locate the metadata log. All but the first are named like etcdctl's flags.
func metaKeys() []key {
	return []key{
		metaURLKey(),
		textKey("meta-cacert", File, func(s *Server) *string { return &s.MetaCACert }, "",
			"The certificate authorities that etcd's certificate is verified against; by default the system's."),
		textKey("meta-cert", File, func(s *Server) *string { return &s.MetaCert }, "",
			"The client certificate for etcd."),
		textKey("meta-key", File, func(s *Server) *string { return &s.MetaKey }, "", "The private key of meta-cert."),
		metaUserKey(),
	}
}

func metaURLKey() key {
	return newKey("meta-url", URL, "The metadata log in etcd: etcd://HOST:PORT,.../NAME, or etcds:// for TLS, the same on every "+
		"node of a cluster; by default a file in the data directory.",
		func(s *Server, text string) error {
			s.MetaURL = text
			if text != "" && !strings.Contains(text, "://") {
				return errors.New("expected a URL, such as etcd://127.0.0.1:2379/prod")
			}
			return nil
		}, func(s *Server) string { return hideInURL(s.MetaURL) }, "")
}

func metaUserKey() key {
	k := textKey("meta-user", User, func(s *Server) *string { return &s.MetaUser }, "",
		"The etcd user; set it in the environment or the file, because other users of the machine can see flags.")
	k.show = func(s *Server) string {
		name, _, ok := strings.Cut(s.MetaUser, ":")
		if ok {
			name += ":" + hidden
		}
		return name
	}
	k.secret = true
	return k
}
