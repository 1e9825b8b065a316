package server

import (
	"fmt"
	"os"
)

// Maker prepares servers of the kind under test: tidemark, or what the environment variable INTEROP_SERVER
// names.
type Maker struct {
	install Install
	binary  string // of tidemark; empty when Kafka stands in
}

// UnderTest returns the maker of the servers under test. It builds tidemark into dir, which must stay.
func UnderTest(in Install, dir string) (*Maker, error) {
	m := &Maker{install: in}
	var err error
	switch name := os.Getenv("INTEROP_SERVER"); name {
	case "", "tidemark":
		m.binary, err = BuildTidemark(in, dir)
	case "kafka":
		err = in.check()
	default:
		err = fmt.Errorf("server: INTEROP_SERVER is %q; it may be tidemark or kafka", name)
	}
	return m, err
}

// New prepares a server with its data below dir, in a directory of its own. It does not start it. The arguments are for
// tidemark; Kafka has the equivalents in its configuration.
func (m *Maker) New(dir string, args ...string) (*Server, error) {
	data, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if m.binary == "" {
		return NewKafka(m.install, KafkaOptions{Dir: data})
	}
	return NewTidemark(TidemarkOptions{Dir: data, Binary: m.binary, Args: args})
}

// Binary is the program of tidemark; empty when Kafka stands in.
func (m *Maker) Binary() string { return m.binary }

// IsTidemark reports whether the server under test is tidemark.
func (m *Maker) IsTidemark() bool { return m.binary != "" }
