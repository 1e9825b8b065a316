package config

import (
	"errors"
	"strings"
)

// metaKeys say where the metadata log is. All but the first are named as etcdctl names its flags.
func metaKeys() []key {
	return []key{
		metaURLKey(),
		textKey("meta-cacert", func(s *Server) *string { return &s.MetaCACert }, "",
			"A file with the authorities that etcd's certificates come from; those of the system if not given."),
		textKey("meta-cert", func(s *Server) *string { return &s.MetaCert }, "",
			"A file with the certificate that is shown to etcd."),
		textKey("meta-key", func(s *Server) *string { return &s.MetaKey }, "", "A file with the key of meta-cert."),
		metaUserKey(),
	}
}

func metaURLKey() key {
	return newKey("meta-url", URL, "Where the metadata log is: etcd://HOST:PORT,HOST:PORT/NAME, or etcds:// for TLS; a file in "+
		"the data directory if not given. Nodes of one cluster name the same.",
		func(s *Server, text string) error {
			s.MetaURL = text
			if text != "" && !strings.Contains(text, "://") {
				return errors.New("expected a URL, such as etcd://127.0.0.1:2379/prod")
			}
			return nil
		}, func(s *Server) string { return hideInURL(s.MetaURL) }, "")
}

func metaUserKey() key {
	k := textKey("meta-user", func(s *Server) *string { return &s.MetaUser }, "",
		"The user of etcd as NAME:PASSWORD; give it in the environment or the file, since others can see flags.")
	k.show = func(s *Server) string {
		name, _, ok := strings.Cut(s.MetaUser, ":")
		if ok {
			name += ":hidden"
		}
		return name
	}
	k.secret = true
	return k
}
