package server

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// KafkaOptions configures Apache Kafka.
type KafkaOptions struct {
	// Dir holds everything: configuration and data. It must exist.
	Dir string
	// Heap is the JVM's -Xms and -Xmx. Empty means 512m.
	Heap string
	// Settings are broker settings, above those that a single node needs.
	Settings map[string]string
}

// clusterID is the id of every cluster that is formatted here; nothing depends on its value.
const clusterID = "dGlkZW1hcmstaW50ZXJvcA"

// NewKafka prepares a single-node Apache Kafka, broker and controller in one. It does not start it.
func NewKafka(in Install, o KafkaOptions) (*Server, error) {
	if o.Heap == "" {
		o.Heap = "512m"
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	controller, err := freeAddr()
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	data := filepath.Join(o.Dir, "data")
	settings := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"controller.quorum.bootstrap.servers":              controller,
		"controller.listener.names":                        "CONTROLLER",
		"listeners":                                        "PLAINTEXT://" + addr + ",CONTROLLER://" + controller,
		"advertised.listeners":                             "PLAINTEXT://" + addr,
		"log.dirs":                                         data,
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		// A broker that was killed may register again only after its old session has ended.
		"broker.session.timeout.ms":    "1000",
		"broker.heartbeat.interval.ms": "200",
	}
	maps.Copy(settings, o.Settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", name, settings[name])
	}
	config := filepath.Join(o.Dir, "server.properties")
	if err := os.WriteFile(config, []byte(text.String()), 0o644); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	format := in.Java("kafka.tools.StorageTool", "format", "--standalone", "-t", clusterID, "-c", config)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("kafka: format: %w\n%s", err, out)
	}
	heap := []string{"-Xms" + o.Heap, "-Xmx" + o.Heap}
	return &Server{
		name: "kafka", addr: addr, dataDir: data, ask: namesItself(addr),
		command: func() *exec.Cmd { return in.java(heap, "kafka.Kafka", []string{config}) },
	}, nil
}
