package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
)

func newBackup() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the metadata of a node or cluster to a file",
		Long: `Back up a metadata log to FILE: topics with their ids and settings, node epochs, streams and which objects hold them.
Records are not in it; they are in the data directory and the bucket. FILE is written atomically, replaces an older backup
but no other file, and is on disk when the command ends. A damaged log is not backed up.

The log is the file in the data directory, or the one in etcd that --meta-url names. Servers may run meanwhile: one that
runs on the data directory hands over a copy at the socket tidemark.sock in it, to its own user and to root. The backup
holds everything that was acknowledged before the command began.`,
		Example: `  tidemark backup /backup/tidemark.meta --data-dir /var/lib/tidemark
  tidemark backup /backup/prod.meta --meta-url etcd://10.0.0.1:2379/prod`,
		Args: exactly("FILE"),
	}
	output := addOutputFlag(c)
	settings := addMetaFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		source, _, err := metaSource(c, settings)
		if err != nil {
			return err
		}
		if err := replaceable(args[0]); err != nil {
			return err
		}
		found, online, err := inspectToBackUp(c, source)
		if err != nil {
			return err
		}
		if len(found.Findings) > 0 {
			return fmt.Errorf("%w: nothing was written; 'tidemark meta check' shows the details", found.Findings[0])
		}
		taken := meta.Backup{ClusterID: found.ClusterID, TakenMs: time.Now().UnixMilli(), Build: version, State: found.State}
		b, err := taken.Encode()
		if err != nil {
			return err
		}
		if err := vfs.WriteFileAtomic(vfs.OS(), args[0], b); err != nil {
			return err
		}
		return reportBackup(c, takenBackup{
			File: args[0], Log: found.Where, ClusterID: found.ClusterID, Index: found.State.Index(),
			Topics: found.State.TopicCount(), Streams: found.State.StreamCount(), Bytes: len(b), Online: online,
		}, asJSON)
	}
	return c
}

// inspectToBackUp reads a metadata log, from the server that is using it if one answers.
func inspectToBackUp(c *cobra.Command, source node.MetaSource) (found *meta.Inspection, online bool, err error) {
	var none *node.NoServerError
	if source.URL == "" {
		found, err = node.InspectRunning(c.Context(), source.DataDir)
		if !errors.As(err, &none) {
			return found, true, err
		}
	}
	found, err = inspectMeta(c, source)
	var locked *meta.LockedError
	if errors.As(err, &locked) {
		err = fmt.Errorf("%w; %w (run the command as the server's user; the server's log says if it could not make the socket)", err, none)
	}
	return found, false, err
}

// replaceable makes sure that a file is a backup or does not exist, so that swapped arguments destroy nothing.
func replaceable(name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0:
		return nil
	case err != nil:
		return err
	}
	if _, err := readBackup(name); err != nil {
		return fmt.Errorf("the existing file is not a backup, so it is not replaced: %w", err)
	}
	return nil
}

// takenBackup describes a backup that was taken.
type takenBackup struct {
	File      string `json:"file"`
	Log       string `json:"log"`
	ClusterID string `json:"cluster_id"`
	Index     uint64 `json:"index"`
	Topics    int    `json:"topics"`
	Streams   int    `json:"streams"`
	Bytes     int    `json:"bytes"`
	// Online says that a running server handed it over.
	Online bool `json:"online"`
}

func reportBackup(c *cobra.Command, b takenBackup, asJSON bool) error {
	if asJSON {
		return writeJSON(c.OutOrStdout(), b)
	}
	from := ""
	if b.Online {
		from = ", from the running server"
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s: cluster %s as of entry %d of %s, %s, %s, %s%s\n", b.File, b.ClusterID,
		b.Index, b.Log, plural(b.Topics, "topic"), plural(b.Streams, "stream"), size(int64(b.Bytes)), from)
	return err
}
