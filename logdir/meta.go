package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/vfs"
)

// Meta says who a data directory belongs to. It is the file meta.properties, Java properties text:
//
//	version 1                        version 0, or without the key
//	─────────────────────────────    ─────────────────────────────
//	version=1                        version=0
//	cluster.id=4L6g3nShT-eMCtK--X    cluster.id=…     optional
//	node.id=1                        broker.id=1      optional
//	directory.id=…      optional     directory.id=…   optional
//
// Unknown keys are ignored, as by Kafka. Version 1 is written.
type Meta struct {
	// ClusterID is any text, not empty; in Kafka a UUID.
	ClusterID string
	// NodeID is the number of the node, from 0. It is -1 if a version 0 file has none.
	NodeID int32
	// DirectoryID identifies the directory in its cluster; zero if the file has none.
	DirectoryID UUID
}

// metaVersion is the newest version of meta.properties, and the one that is written.
const metaVersion = 1

// Meta reads meta.properties. The error matches [fs.ErrNotExist] if there is none, and is a [*VersionError] or a
// [*FormatError] if it cannot be used.
func (d *Dir) Meta() (Meta, error) {
	var m Meta
	err := d.use(func() error {
		file := d.file(metaFile)
		data, err := vfs.ReadFile(d.fs, file)
		if err != nil {
			return err
		}
		m, err = decodeMeta(data)
		return inFile(file, err)
	})
	return m, err
}

// WriteMeta replaces meta.properties and returns when it is durable. An empty ClusterID, a negative NodeID and a reserved
// DirectoryID are refused; a zero DirectoryID is left out. A file that [Dir.Meta] cannot read is not replaced, since it
// may belong to another server: its error is returned.
func (d *Dir) WriteMeta(m Meta) error {
	if m.ClusterID == "" || m.NodeID < 0 {
		return fmt.Errorf("%s needs a cluster id and a node id from 0; have %q and %d", metaFile, m.ClusterID, m.NodeID)
	}
	if !m.DirectoryID.IsZero() && m.DirectoryID.IsReserved() {
		return fmt.Errorf("%s: directory id %s is reserved", metaFile, m.DirectoryID)
	}
	if _, err := d.Meta(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.use(func() error { return vfs.WriteFileAtomic(d.fs, d.file(metaFile), encodeMeta(m)) })
}

func encodeMeta(m Meta) []byte {
	props := map[string]string{
		"version":    strconv.Itoa(metaVersion),
		"cluster.id": m.ClusterID,
		"node.id":    strconv.Itoa(int(m.NodeID)),
	}
	if !m.DirectoryID.IsZero() {
		props["directory.id"] = m.DirectoryID.String()
	}
	return formatProperties(props)
}

func decodeMeta(data []byte) (Meta, error) {
	props, err := parseProperties(data)
	if err != nil {
		return Meta{}, formatError(0, "%v", err)
	}
	version := int64(0)
	if text, ok := props["version"]; ok {
		if version, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64); err != nil {
			return Meta{}, formatError(0, "version %q is not a number", text)
		}
	}
	if version < 0 || version > metaVersion {
		return Meta{}, &VersionError{Found: version, Newest: metaVersion}
	}
	return decodeMetaKeys(props, version)
}

func decodeMetaKeys(props map[string]string, version int64) (Meta, error) {
	nodeKey := "node.id"
	if version == 0 {
		nodeKey = "broker.id"
	}
	m := Meta{ClusterID: props["cluster.id"], NodeID: -1}
	nodeText, hasNode := props[nodeKey]
	if version > 0 && (m.ClusterID == "" || !hasNode) {
		return Meta{}, formatError(0, "version %d needs cluster.id and node.id", version)
	}
	if hasNode {
		id, err := strconv.ParseInt(strings.TrimSpace(nodeText), 10, 32)
		if err != nil || id < 0 {
			return Meta{}, formatError(0, "%s is %q; want a number from 0", nodeKey, nodeText)
		}
		m.NodeID = int32(id)
	}
	if text, ok := props["directory.id"]; ok {
		id, err := ParseUUID(strings.TrimSpace(text))
		if err != nil {
			return Meta{}, formatError(0, "directory.id: %v", err)
		}
		m.DirectoryID = id
	}
	return m, nil
}
