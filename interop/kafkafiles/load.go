package kafkafiles

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Load reads a snapshot that golden wrote: the JSON at path+".json" and the files in the directory path.
func Load(path string) (*Snapshot, error) {
	text, err := os.ReadFile(path + ".json")
	if err != nil {
		return nil, fmt.Errorf("kafkafiles: %w", err)
	}
	s := &Snapshot{Dir: path}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("kafkafiles: %s.json: %w", path, err)
	}
	return s, nil
}

// Checkpoint returns the content of a checkpoint file of the log directory, by the names of partitions' directories.
func (s *Snapshot) Checkpoint(file string) (map[string]int64, error) {
	f, err := os.Open(filepath.Join(s.Dir, file))
	if err != nil {
		return nil, fmt.Errorf("kafkafiles: %w", err)
	}
	defer f.Close()
	offsets := map[string]int64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 { // the version and the count
			continue
		}
		if offsets[fields[0]+"-"+fields[1]], err = strconv.ParseInt(fields[2], 10, 64); err != nil {
			return nil, fmt.Errorf("kafkafiles: %s: %w", file, err)
		}
	}
	return offsets, nil
}
