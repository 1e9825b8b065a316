package command

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
)

// explainStart says what to do about common failures of a start.
func explainStart(server config.Server, err error) error {
	var exposed *node.ExposedError
	var listening *net.OpError
	var store *node.StoreError
	var wrong *node.WrongStoreError
	var file *fs.PathError
	var cause syscall.Errno
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("another process has the data directory %s open; stop it, or name another with --data-dir: %w",
			server.DataDir, err)
	case errors.As(err, &exposed):
		return fmt.Errorf("%s can be reached from other machines, and whoever reaches it can read and write everything; "+
			"listen on loopback, or confirm with --insecure-listen", exposed.Address)
	case errors.As(err, &store): // before the addresses: it may be the bucket that cannot be reached
		return fmt.Errorf("%w; fix it, name another with --store (file:///DIR is a directory), or leave --store out", err)
	case errors.As(err, &wrong):
		return fmt.Errorf("%w; name that one with --store, or copy all of its objects here", err)
	case isDamagedMetadata(err, server.DataDir):
		file := filepath.Join(server.DataDir, "metadata.db")
		return fmt.Errorf("%w. Move the file away ('mv %s %s.damaged'), then restore a backup with 'tidemark restore'; without one, "+
			"'tidemark recover --data-dir %s' shows what can be rebuilt, and rebuilds it", err, file, file, server.DataDir)
	case errors.As(err, &listening):
		return explainListen(server, listening, err)
	case errors.As(err, &file) && errors.As(err, &cause):
		return explainDirectory(server.DataDir, file.Path, cause, err)
	}
	return err
}

// isDamagedMetadata reports whether a start failed because the metadata file in the data directory is damaged.
func isDamagedMetadata(err error, dataDir string) bool {
	var newer *meta.VersionError
	var corrupt *meta.CorruptError
	var gap *meta.GapError
	var missing *meta.MissingError
	where := ""
	switch {
	case errors.As(err, &newer):
	case errors.As(err, &corrupt):
		where = corrupt.Where
	case errors.As(err, &gap):
		where = gap.Where
	case errors.As(err, &missing) && missing.Empty:
		where = missing.Path
	}
	return where == filepath.Join(dataDir, "metadata.db")
}

// explainTaking says what to do when a tool cannot lock the data directory of a stopped server.
func explainTaking(dir string, err error) error {
	var file *fs.PathError
	var cause syscall.Errno
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("stop the server that uses %s first: %w", dir, err)
	case !errors.As(err, &file) || !errors.As(err, &cause):
		return err
	}
	switch cause {
	case syscall.EACCES, syscall.EPERM:
		return fmt.Errorf("no permission in %s; run the command as the user that runs the server: %w", dir, err)
	case syscall.EROFS:
		return fmt.Errorf("%s is on a file system that is mounted read-only; a dry run works there, and for changes mount it for writing or "+
			"use a copy: %w", dir, err)
	}
	return explainDirectory(dir, file.Path, cause, err)
}

// explainListen says what to do about an address that cannot be bound.
func explainListen(server config.Server, failed *net.OpError, err error) error {
	var lookup *net.DNSError
	address := "an address"
	if failed.Addr != nil {
		address = failed.Addr.String()
	}
	flag := listenFlag(server, address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is taken by another process; stop it, or choose another address with %s (port 0 picks a free "+
			"one): %w", address, flag, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this machine; listen on one that is, or on 0.0.0.0 for all of them, with %s, and "+
			"tell clients where to connect with --kafka-advertise: %w", address, flag, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to listen on %s: most systems reserve ports below 1024 for privileged users; choose "+
			"another with %s: %w", address, flag, err)
	case errors.As(err, &lookup):
		return fmt.Errorf("the name %s does not resolve here; listen on an address of this machine with --kafka-listen or "+
			"--http-listen: %w", lookup.Name, err)
	}
	return err
}

// listenFlag returns the flag that set an address, as far as that can be determined.
func listenFlag(server config.Server, address string) string {
	if address == server.HTTPListen && !slices.Contains(server.KafkaListen, address) {
		return "--http-listen"
	}
	return "--kafka-listen"
}

// explainDirectory says what to do about a failed file operation in a data directory.
func explainDirectory(dir, file string, cause syscall.Errno, err error) error {
	switch cause {
	case syscall.EACCES, syscall.EPERM:
		return fmt.Errorf("no permission in the data directory %s; fix its owner or mode, or name another with --data-dir: %w",
			dir, err)
	case syscall.ENOTDIR, syscall.EEXIST:
		return fmt.Errorf("%s is not a directory; name another with --data-dir: %w", dir, err)
	case syscall.ENOENT, syscall.ELOOP, syscall.ENAMETOOLONG:
		return fmt.Errorf("the data directory %s cannot be created, because of %s; name another with --data-dir: %w",
			dir, file, err)
	case syscall.EROFS:
		return fmt.Errorf("the data directory %s is on a file system that is mounted read-only; mount it for writing, or name another "+
			"with --data-dir: %w", dir, err)
	case syscall.ENOSPC, syscall.EDQUOT:
		return fmt.Errorf("no space is left for the data directory %s; free some on its disk, or name another with --data-dir: %w",
			dir, err)
	case syscall.EIO:
		return fmt.Errorf("the disk under the data directory %s fails at %s; look at the kernel's log, and write nothing to the disk "+
			"until it is fixed: %w", dir, file, err)
	}
	return err
}
