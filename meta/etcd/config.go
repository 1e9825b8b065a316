package etcd

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// Config says where a log is in etcd and how to connect. Endpoints and Name must be set; the zero value of the rest is
// usable.
type Config struct {
	// Endpoints are HOST:PORT of members of the etcd cluster.
	Endpoints []string
	// Name separates logs in one etcd: all keys begin with /tidemark/Name/.
	Name string

	// ClusterID is the id that the log must have, unless it is empty; NewClusterID is then the id of a new log. Without
	// either no log is created.
	ClusterID, NewClusterID string
	// MustExist refuses to create a log.
	MustExist bool

	// Username and Password are those of a user of etcd; empty for none.
	Username, Password string
	// TLS configures connections to members; nil means plaintext.
	TLS *tls.Config

	// TTL is how long a claim outlives a holder that has gone. The default is 10 s; etcd takes whole seconds and may ask for
	// more.
	TTL time.Duration
	// Timeout is how long one request may take. The default is 5 s.
	Timeout time.Duration
	// KeepHistory leaves it to others to compact the history of etcd's keys. By default it is compacted after the log
	// has been truncated.
	KeepHistory bool
	// DialOptions are added to those of every connection.
	DialOptions []grpc.DialOption
}

// Credentials are files and a user by the names that etcdctl has for them.
type Credentials struct {
	CACert string // file of the authorities that members' certificates come from; empty: those of the system
	Cert   string // file of our certificate, and of its Key
	Key    string
	User   string // NAME or NAME:PASSWORD
}

// URLError says what is wrong with a URL of a log. It shows no password.
type URLError struct{ URL, Reason string }

// Error names the URL and the reason.
func (e *URLError) Error() string { return fmt.Sprintf("meta: %s: %s", e.URL, e.Reason) }

var legalName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// ParseURL returns the config that a URL stands for: etcd://HOST:PORT,HOST:PORT/NAME, or etcds:// for TLS. The port may be
// left out and is 2379 then. TLS is also used when the credentials have a file.
func ParseURL(text string, c Credentials) (Config, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	hosts, name, _ := strings.Cut(rest, "/")
	fault := func(format string, args ...any) (Config, error) {
		return Config{}, &URLError{URL: redact(text), Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case scheme != "etcd" && scheme != "etcds":
		return fault("it begins with neither etcd:// nor etcds://")
	case strings.Contains(hosts, "@"):
		return fault("a user goes into a setting of its own and not into the URL")
	case !legalName.MatchString(name):
		return fault("after the hosts comes /NAME, of 1 to 100 letters, digits, '.', '_' and '-'")
	}
	config := Config{Name: name}
	for host := range strings.SplitSeq(hosts, ",") {
		if u, err := url.Parse("//" + host); err != nil || u.Hostname() == "" {
			return fault("%q is no HOST:PORT", host)
		} else {
			config.Endpoints = append(config.Endpoints, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "2379")))
		}
	}
	config.Username, config.Password, _ = strings.Cut(c.User, ":")
	if scheme == "etcd" && c.CACert == "" && c.Cert == "" && c.Key == "" {
		return config, nil
	}
	var err error
	config.TLS, err = c.tls()
	return config, err
}

// redact returns a URL without what may be a password.
func redact(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if i := strings.LastIndex(rest, "@"); ok && i >= 0 {
		return scheme + "://***@" + rest[i+1:]
	}
	return text
}

// tls reads the files.
func (c Credentials) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CACert != "" {
		pem, err := os.ReadFile(c.CACert)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("meta: %s holds no certificate", c.CACert)
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("meta: a certificate for etcd needs its key, and a key its certificate")
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, 10*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	return c
}

// String returns the URL, without a user.
func (c Config) String() string {
	scheme := "etcd"
	if c.TLS != nil {
		scheme = "etcds"
	}
	return scheme + "://" + strings.Join(c.Endpoints, ",") + "/" + c.Name
}
