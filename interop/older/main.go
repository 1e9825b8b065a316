// Command older runs older clients as interop peers: sarama, segmentio/kafka-go, and confluent-kafka-go with the
// librdkafka 1.x that it includes. It is a module of its own, so that they can coexist with the newer ones.
//
//	older CLIENT jobs.json SERVER            carries out jobs: see peers/jobs.py
//	older CLIENT group SERVER GROUP TOPIC    a member of a group: prints every value, commits, and leaves upon SIGTERM
//
// CLIENT is sarama-VERSION (of Kafka, such as 2.1.0), kafka-go, or librdkafka.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// limit is how long a client may take for a job.
const limit = 2 * time.Minute

// record is a record as a client sees it; nil bytes are null.
type record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // milliseconds
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

type header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// job is one topic that is written, read, or made and deleted.
type job struct {
	Op         string `json:"op"` // write, read or admin
	Topic      string `json:"topic"`
	Codec      string `json:"codec"`
	Idempotent bool   `json:"idempotent"`
	MaxBytes   int    `json:"max_bytes"`
	Records    string `json:"records"` // the file that has them
	Count      int    `json:"count"`
	Output     string `json:"output"` // the file that they go to
}

// client is one of the clients.
type client interface {
	write(ctx context.Context, j job, records []record) error
	read(ctx context.Context, j job) ([]record, error)
	// admin creates a topic of three partitions, finds it, and deletes it.
	admin(ctx context.Context, topic string) error
	// group is a member until ctx ends.
	group(ctx context.Context, group, topic string) error
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 5 && args[1] == "group":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		c, err := newClient(args[0], args[2])
		if err != nil {
			return err
		}
		return c.group(ctx, args[3], args[4])
	case len(args) == 3:
		c, err := newClient(args[0], args[2])
		if err != nil {
			return err
		}
		return carryOut(c, args[1])
	}
	return errors.New("usage: older CLIENT jobs.json SERVER | older CLIENT group SERVER GROUP TOPIC")
}

func newClient(name, server string) (client, error) {
	version, isSarama := strings.CutPrefix(name, "sarama-")
	switch {
	case isSarama:
		return newSarama(version, server)
	case name == "kafka-go":
		return kafkaGo{server}, nil
	case name == "librdkafka":
		return librdkafka{server}, nil
	}
	return nil, fmt.Errorf("there is no client %q", name)
}

// carryOut runs the jobs of a file, in order.
func carryOut(c client, file string) error {
	var jobs []job
	if err := load(file, &jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		if err := one(c, j); err != nil {
			return fmt.Errorf("%s %s: %w", j.Op, j.Topic, err)
		}
	}
	return nil
}

func one(c client, j job) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	switch j.Op {
	case "write":
		var records []record
		if err := load(j.Records, &records); err != nil {
			return err
		}
		return c.write(ctx, j, records)
	case "read":
		records, err := c.read(ctx, j)
		if err != nil {
			return fmt.Errorf("after %d of %d records: %w", len(records), j.Count, err)
		}
		data, err := json.Marshal(records)
		if err != nil {
			return err
		}
		return os.WriteFile(j.Output, data, 0o644)
	case "admin":
		return c.admin(ctx, j.Topic)
	}
	return errors.New("there is no such job")
}

func load(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
