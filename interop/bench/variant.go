package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/interop/server"
)

// variant is a running server, or one way to use it.
type variant struct {
	name         string
	title        string // for the table
	addr         string
	pid          int
	topicConfigs map[string]string
	process      string         // variants of one process share its name
	server       *server.Server // nil for a sink in this program
}

// kafkaHeap is the heap that Apache Kafka's own start script gives a broker.
const kafkaHeap = "1g"

// variantNames lists the variants that can be measured.
func variantNames() []string {
	return []string{"tidemark", "tidemark-os", "kafka", "kafka-flush", "floor", "null"}
}

// serves reports whether records can be read back from the variant.
func (v *variant) serves() bool { return v.process != "floor" }

// stores reports whether the variant is a server that keeps records for good.
func (v *variant) stores() bool { return v.process != "floor" && v.process != "null" }

// warmth returns how long a variant is put under load before it is measured, given the time for Kafka.
func (v *variant) warmth(kafka time.Duration) time.Duration {
	if v.process == "kafka" {
		return kafka
	}
	return kafka / 10
}

// startVariants starts the servers that the named variants need. The caller calls stop, whatever the error.
func startVariants(ctx context.Context, names []string, dir string) (variants []*variant, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range slices.Backward(stops) {
			f()
		}
	}
	processes := map[string]*variant{} // a running server by the name of its process
	for _, name := range names {
		v, err := describe(name)
		if err != nil {
			return nil, stop, err
		}
		running := processes[v.process]
		if running == nil {
			running = v
			f, err := v.start(ctx, dir)
			if err != nil {
				return nil, stop, err
			}
			stops = append(stops, f)
			processes[v.process] = v
		}
		v.addr, v.pid, v.server = running.addr, running.pid, running.server
		variants = append(variants, v)
	}
	return variants, stop, nil
}

func describe(name string) (*variant, error) {
	switch name {
	case "tidemark":
		return &variant{name: name, process: "tidemark", title: "Tidemark (fsync before the answer)"}, nil
	case "tidemark-os":
		return &variant{name: name, process: "tidemark", title: "Tidemark (`tidemark.flush=os`)",
			topicConfigs: map[string]string{"tidemark.flush": "os"}}, nil
	case "kafka":
		return &variant{name: name, process: "kafka", title: "Apache Kafka 4.4.0"}, nil
	case "kafka-flush":
		return &variant{name: name, process: "kafka", title: "Apache Kafka 4.4.0 (`flush.messages=1`)",
			topicConfigs: map[string]string{"flush.messages": "1"}}, nil
	case "floor":
		return &variant{name: name, process: "floor", title: "the least that stores: `write`, nothing else"}, nil
	case "null":
		return &variant{name: name, process: "null", title: "nothing but answers"}, nil
	default:
		return nil, fmt.Errorf("bench: no server is called %q; there are %v", name, variantNames())
	}
}

// start runs the variant's process and fills in its address.
func (v *variant) start(ctx context.Context, dir string) (stop func(), err error) {
	switch v.process {
	case "null":
		sink, err := startSink(nil)
		if err != nil {
			return nil, err
		}
		v.addr, v.pid = sink.addr(), os.Getpid()
		return sink.stop, nil
	case "floor":
		v.addr, v.pid, stop, err = startFloor(ctx, dir)
		return stop, err
	}
	binary, err := tidemarkBinary(dir)
	if err != nil {
		return nil, err
	}
	s, err := newServer(v.process, binary, filepath.Join(dir, v.process+"-data"))
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	v.addr, v.pid, v.server = s.Addr(), s.PID(), s
	return func() {
		if err := s.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}

// tidemarkBinary returns the program, building it into dir once.
func tidemarkBinary(dir string) (string, error) {
	binary := filepath.Join(dir, "tidemark")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	in, err := server.Located()
	if err != nil {
		return "", err
	}
	return server.BuildTidemark(in, dir)
}

// kafkaSettings restores Kafka's own defaults where the tests have others: a broker under load that misses its heartbeats
// for a second must not be taken for dead.
var kafkaSettings = map[string]string{"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}

// newServer prepares a server of a kind, kafka or tidemark, with its data in a new directory.
func newServer(kind, binary, data string) (*server.Server, error) {
	in, err := server.Installed()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(data, 0o755); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if kind == "kafka" {
		return server.NewKafka(in, server.KafkaOptions{Dir: data, Heap: kafkaHeap, Settings: kafkaSettings})
	}
	return server.NewTidemark(server.TidemarkOptions{Dir: data, Binary: binary})
}
