package node

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/etcd"
)

// MetaStore locates a metadata log in etcd: a URL such as etcd://HOST:PORT,HOST:PORT/NAME, or etcds:// for TLS. The other
// fields correspond to etcdctl's flags. The zero value means a file in the data directory.
type MetaStore struct {
	URL    string
	CACert string // file of the authorities that sign etcd's certificate
	Cert   string // file of the client certificate
	Key    string // file of its key
	User   string // NAME or NAME:PASSWORD
}

// TwoMetadataLogsError says that a metadata log in etcd is configured, but the data directory has one of its own.
type TwoMetadataLogsError struct{ File, URL string }

func (e *TwoMetadataLogsError) Error() string {
	return fmt.Sprintf("the metadata log is to be %s, but the data directory has one of its own, %s: move it over with "+
		"'tidemark backup' and 'tidemark restore', and the file elsewhere", e.URL, e.File)
}

// check reports what is wrong with the URL or the files.
func (s MetaStore) check() error {
	if s.URL == "" {
		return nil
	}
	_, err := s.config()
	return err
}

func (s MetaStore) config() (etcd.Config, error) {
	return etcd.ParseURL(s.URL, etcd.Credentials{CACert: s.CACert, Cert: s.Cert, Key: s.Key, User: s.User})
}

// openTime is how long a starting node waits for etcd.
const openTime = 30 * time.Second

// openCluster opens the log in etcd, which must have the wanted cluster id if one is given. A missing log is created,
// unless it must exist.
func (s MetaStore) openCluster(ctx context.Context, wanted string, mustExist bool) (meta.Backend, error) {
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	c.ClusterID, c.NewClusterID, c.MustExist = wanted, logdir.NewUUID().String(), mustExist
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	return etcd.Open(ctx, c)
}
