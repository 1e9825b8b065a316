package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

// NoServerError says that nothing listens at the backup socket of a data directory: no server runs there, or it could not
// create the socket.
type NoServerError struct {
	Socket string
	Err    error
}

func (e *NoServerError) Error() string {
	return fmt.Sprintf("no server answers at %s: %v", e.Socket, e.Err)
}

// Unwrap returns the error of connecting.
func (e *NoServerError) Unwrap() error { return e.Err }

// InspectRunning reads the metadata of the server that is using a data directory, as of one moment after the call began:
// it includes every change acknowledged before the call. The server hands over a copy of its file without blocking
// writers, and the copy is verified as by [InspectMeta]. Errors to match: [*NoServerError].
func InspectRunning(ctx context.Context, dataDir string) (found *meta.Inspection, err error) {
	body, err := askForBackup(ctx, dataDir)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	own, err := os.MkdirTemp("", "tidemark-backup-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	name := filepath.Join(own, metaFile)
	if err := writeAll(name, body); err != nil {
		return nil, err
	}
	b, err := embedded.OpenToRead(name)
	if err != nil {
		return nil, err
	}
	found, err = meta.Inspect(ctx, b)
	if found != nil {
		found.Where = path.Join(dataDir, metaFile)
	}
	return found, errors.Join(err, b.Close())
}

// askForBackup returns what the server sends. The caller closes it.
func askForBackup(ctx context.Context, dataDir string) (io.ReadCloser, error) {
	socket := path.Join(dataDir, backupSocket)
	var dialed error
	transport := &http.Transport{
		DisableKeepAlives: true, ResponseHeaderTimeout: time.Minute,
		DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
			err = withShortPath(dataDir, func(short string) error {
				var d net.Dialer
				conn, err = d.DialContext(ctx, "unix", filepath.Join(short, backupSocket))
				return err
			})
			dialed = err
			return conn, err
		},
	}
	c := &http.Client{Transport: transport}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/backup", nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.Do(request)
	switch {
	case err != nil && dialed != nil && ctx.Err() == nil:
		return nil, &NoServerError{Socket: socket, Err: dialed}
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		return nil, errors.Join(fmt.Errorf("%s: the server says %s: %s", socket, answer.Status, strings.TrimSpace(string(text))),
			answer.Body.Close())
	}
	return answer.Body, nil
}

// writeAll writes a file that only this user can read.
func writeAll(name string, from io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
