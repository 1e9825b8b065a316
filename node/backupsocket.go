package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"
)

// backupSocket is the unix socket in the data directory at which a running server offers a copy of its metadata. It speaks
// HTTP/1.1: GET /backup answers with the metadata file as it was at one moment after the request came in. Only the server's
// own user, and root, can connect.
const backupSocket = "tidemark.sock"

// Limits of the backup socket.
const (
	backupsAtOnce  = 2                // more are refused and may retry
	backupPatience = 30 * time.Second // how long a client may stop reading
	backupChunk    = 256 << 10
)

// copyPattern matches copies for the moment in which they have a name.
const copyPattern = metaFile + ".copy-*"

// copiedFile is a metadata log that can be copied while it is written to.
type copiedFile interface {
	CopyTo(ctx context.Context, w io.Writer) (int64, error)
}

// openBackups offers copies of the metadata, if it is a file in the data directory. A server that cannot do so logs that
// and runs without.
func (n *Node) openBackups(ctx context.Context) error {
	file, ok := n.metaFile.(copiedFile)
	if !ok {
		return nil
	}
	removeLeft(n.config.DataDir, copyPattern)
	l, remove, err := listenInDir(ctx, n.config.DataDir, backupSocket)
	if err != nil {
		n.log.Warn("the metadata cannot be backed up while the server runs: the socket for that cannot be created",
			"socket", path.Join(n.config.DataDir, backupSocket), "error", err)
		return nil
	}
	server := newBackupServer(file, n.config.DataDir)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.Warn("the metadata can no longer be backed up while the server runs", "error", err)
		}
	}()
	n.undo("the backup socket", func(ctx context.Context) error {
		remove()
		grace, cancel := context.WithTimeout(ctx, graceTime)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			_ = server.Close() // disconnects clients that still read
		}
		<-ended
		return nil
	})
	return nil
}

// newBackupServer serves copies of a metadata file. Each is first written to an unnamed file in dir, so that a slow
// client does not hold up the metadata log.
func newBackupServer(file copiedFile, dir string) *http.Server {
	turns := make(chan struct{}, backupsAtOnce)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /backup", func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		default:
			http.Error(w, fmt.Sprintf("%d backups are being taken; try again", backupsAtOnce), http.StatusServiceUnavailable)
			return
		}
		copied, size, err := copyAside(r.Context(), file, dir)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer copied.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		sendPatiently(w, copied)
	})
	return &http.Server{
		Handler: mux, ReadHeaderTimeout: backupPatience, ReadTimeout: backupPatience, IdleTimeout: backupPatience,
		MaxHeaderBytes: 16 << 10,
	}
}

// copyAside copies a metadata file into an unlinked temporary file, which disappears when it is closed.
func copyAside(ctx context.Context, file copiedFile, dir string) (copied *os.File, size int64, err error) {
	copied, err = os.CreateTemp(dir, copyPattern)
	if err != nil {
		return nil, 0, err
	}
	err = os.Remove(copied.Name())
	if err == nil {
		size, err = file.CopyTo(ctx, copied)
	}
	if err == nil {
		_, err = copied.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, copied.Close())
	}
	return copied, size, nil
}

// sendPatiently sends a file for as long as the client keeps reading. A client that is cut off notices, because it knows
// the length.
func sendPatiently(w http.ResponseWriter, from io.Reader) {
	control := http.NewResponseController(w)
	for {
		if control.SetWriteDeadline(time.Now().Add(backupPatience)) != nil {
			return
		}
		if _, err := io.CopyN(w, from, backupChunk); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
	}
}

// listenInDir listens on a unix socket in a directory to which only this user can connect, replacing a socket that an
// earlier process left there. remove removes the socket.
func listenInDir(ctx context.Context, dir, name string) (l net.Listener, remove func(), err error) {
	target := filepath.Join(dir, name)
	removeLeft(dir, name+".*.new")                   // left by a process that died within the next lines
	private, err := os.MkdirTemp(dir, name+".*.new") // nobody else can connect before the socket has its mode
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(private)
	if err := isReplaceable(target); err != nil {
		return nil, nil, err
	}
	err = withShortPath(private, func(short string) error {
		var c net.ListenConfig
		l, err = c.Listen(ctx, "unix", filepath.Join(short, "s"))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it will have another name
	made := filepath.Join(private, "s")
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, target)); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, func() { _ = os.Remove(target) }, nil // if this fails, the next process replaces it
}

// removeLeft removes files that a process left in a directory because it died. Failing to do so does no harm.
func removeLeft(dir, pattern string) {
	left, _ := filepath.Glob(filepath.Join(globEscape(dir), pattern))
	for _, old := range left {
		_ = os.RemoveAll(old)
	}
}

// isReplaceable returns an error unless the target is missing or a socket.
func isReplaceable(target string) error {
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		err = fmt.Errorf("%s exists and is not a socket", target)
	}
	return err
}

// globEscape quotes a path for use in a glob pattern.
func globEscape(dir string) string {
	escaped := ""
	for _, r := range dir {
		switch r {
		case '*', '?', '[', '\\':
			escaped += "\\"
		}
		escaped += string(r)
	}
	return escaped
}

// maxSocketPath is the longest path of a unix socket that works everywhere: macOS and BSD allow 104 bytes including the
// final zero, Linux 108. It leaves room for a name of 16 bytes behind the directory's path.
const maxSocketPath = 103

// withShortPath calls f with a path of dir that has room for the name of a socket: dir itself or, if that is too long, a
// path through a descriptor of this process, where the system offers those (Linux).
func withShortPath(dir string, f func(short string) error) error {
	const room = 16
	if len(dir)+room <= maxSocketPath {
		return f(dir)
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	short := fmt.Sprintf("/proc/self/fd/%d", d.Fd())
	if _, err := os.Stat(short); err != nil {
		return fmt.Errorf("the path %s is too long for a socket (at most %d bytes): use a shorter one, or a symbolic link", dir, maxSocketPath)
	}
	return f(short)
}
