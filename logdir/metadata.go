package logdir

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/vfs"
)

// Metadata is the file partition.metadata of a partition's directory. It ties the log to the topic that it was
// created for, so that a topic that is deleted and recreated under the same name does not find the old records.
//
//	version: 0                         LF
//	topic_id: AAAAAAAAAAAAAAAAAAAAKg   no LF
type Metadata struct {
	// Version is 0 in files written here. Any later one is accepted, as by Kafka, since these two lines stay.
	Version int64
	// TopicID is never zero.
	TopicID UUID
}

// ReadMetadata reads partition.metadata in a partition's directory. The error matches [fs.ErrNotExist] if there is
// none, and is a [*FormatError] if it is damaged.
func ReadMetadata(fsys vfs.FS, partitionDir string) (Metadata, error) {
	file := partitionDir + "/" + metadataFile
	data, err := vfs.ReadFile(fsys, file)
	if err != nil {
		return Metadata{}, err
	}
	m, err := decodeMetadata(data)
	return m, inFile(file, err)
}

// WriteMetadata replaces partition.metadata and returns when it is durable. Call it before the first record is written.
func WriteMetadata(fsys vfs.FS, partitionDir string, topicID UUID) error {
	if topicID.IsZero() {
		return fmt.Errorf("topic id of %s is zero", partitionDir)
	}
	return vfs.WriteFileAtomic(fsys, partitionDir+"/"+metadataFile, encodeMetadata(Metadata{TopicID: topicID}))
}

func encodeMetadata(m Metadata) []byte {
	return fmt.Appendf(nil, "version: %d\ntopic_id: %s", m.Version, m.TopicID)
}

func decodeMetadata(data []byte) (Metadata, error) {
	lines := splitLines(data)
	if len(lines) != 2 {
		return Metadata{}, formatError(0, "want two lines, found %d", len(lines))
	}
	versionText, err := metadataField(lines[0], "version:")
	if err != nil {
		return Metadata{}, formatError(1, "%v", err)
	}
	version, err := strconv.ParseInt(versionText, 10, 32)
	if err != nil || version < 0 {
		return Metadata{}, formatError(1, "version %q is not a number from 0", versionText)
	}
	idText, err := metadataField(lines[1], "topic_id:")
	if err != nil {
		return Metadata{}, formatError(2, "%v", err)
	}
	id, err := ParseUUID(idText)
	if err != nil {
		return Metadata{}, formatError(2, "%v", err)
	}
	if id.IsZero() {
		return Metadata{}, formatError(2, "topic id is zero")
	}
	return Metadata{Version: version, TopicID: id}, nil
}

// metadataField returns the value of a line "name value".
func metadataField(line, name string) (string, error) {
	fields := strings.FieldsFunc(line, isSpace)
	if len(fields) != 2 || fields[0] != name {
		return "", fmt.Errorf("want %q and a value, found %q", name, line)
	}
	return fields[1], nil
}
