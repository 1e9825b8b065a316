package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// groupPeers are the clients whose groups are tested.
var groupPeers = map[string]groupPeer{
	"kcat":                        kcatGroup("range"),
	"kcat-cooperative":            kcatGroup("cooperative-sticky"),
	"confluent-kafka":             confluentGroup("roundrobin"),
	"confluent-kafka-cooperative": confluentGroup("cooperative-sticky"),
	"kafka-python": processPeer(func(group, topic string) *exec.Cmd {
		return shared.install.Python("kafka_python_group.py", shared.under.Addr(), group, topic)
	}),
	"kafkajs": processPeer(func(group, topic string) *exec.Cmd {
		return shared.install.Node("kafkajs_peer.js", shared.under.Addr(), "group", group, topic)
	}),
	"kafkajs-1": processPeer(func(group, topic string) *exec.Cmd {
		return shared.install.OlderNode("kafkajs_peer.js", shared.under.Addr(), "group", group, topic)
	}),
	"aiokafka": processPeer(func(group, topic string) *exec.Cmd {
		return shared.install.Python("aiokafka_group.py", shared.under.Addr(), group, topic)
	}),
	"sarama-2.8":         saramaGroup{sarama.V2_8_0_0},
	"sarama-3.6":         saramaGroup{sarama.V3_6_0_0},
	"sarama-4.1":         saramaGroup{sarama.V4_1_0_0},
	"segmentio-kafka-go": kafkaGoGroup{},
}

func kcatGroup(strategy string) groupPeer {
	return processPeer(func(group, topic string) *exec.Cmd {
		return exec.Command("kcat", "-b", shared.under.Addr(), "-G", group, "-u", "-f", `%s\n`,
			"-X", "partition.assignment.strategy="+strategy, "-X", "auto.offset.reset=earliest",
			"-X", "auto.commit.interval.ms=100", "-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=200", topic)
	})
}

func confluentGroup(strategy string) groupPeer {
	return processPeer(func(group, topic string) *exec.Cmd {
		return shared.install.Python("confluent_group.py", shared.under.Addr(), group, topic, strategy)
	})
}

// processPeer is a program that prints the value of every record on a line of its own and leaves upon SIGTERM.
type processPeer func(group, topic string) *exec.Cmd

func (p processPeer) join(t *testing.T, group, topic string, h *heard) groupMember {
	t.Helper()
	m := &processMember{cmd: p(group, topic), ended: make(chan struct{})}
	m.cmd.Stderr = &m.errors
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := m.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, m.cmd.Start())
	go func() {
		defer close(m.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.add(lines.Text())
		}
		m.result = m.cmd.Wait()
	}()
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("%v: %v\n%.3000s", m.cmd.Args, m.result, m.errors.String())
		}
	})
	return m
}

type processMember struct {
	cmd    *exec.Cmd
	errors bytes.Buffer
	ended  chan struct{}
	result error // valid once ended is closed
}

func (m *processMember) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, m.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-m.ended:
	case <-limited(t, 2*time.Minute).Done():
		require.FailNow(t, "it does not end")
	}
	var exit *exec.ExitError
	if errors.As(m.result, &exit) && exit.ExitCode() == 128+int(syscall.SIGTERM) {
		return // a JVM's way to end in order
	}
	require.NoError(t, m.result)
}

func (m *processMember) kill() {
	m.cmd.Process.Kill()
	<-m.ended
}

// saramaGroup is a consumer group of sarama with its sticky strategy.
type saramaGroup struct{ version sarama.KafkaVersion }

func (p saramaGroup) join(t *testing.T, group, topic string, h *heard) groupMember {
	t.Helper()
	config := sarama.NewConfig()
	config.Version = p.version
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	c, err := sarama.NewConsumerGroup([]string{shared.under.Addr()}, group, config)
	require.NoError(t, err)
	return inGoroutine(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			assert.NoError(t, c.Consume(ctx, []string{topic}, saramaClaims{h}))
		}
		assert.NoError(t, c.Close())
	})
}

type saramaClaims struct{ heard *heard }

func (saramaClaims) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaClaims) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c saramaClaims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		c.heard.add(string(m.Value))
		session.MarkMessage(m, "")
	}
	return nil
}

// kafkaGoGroup is a reader of segmentio/kafka-go in a group.
type kafkaGoGroup struct{}

func (kafkaGoGroup) join(t *testing.T, group, topic string, h *heard) groupMember {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{shared.under.Addr()}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		MaxWait: 500 * time.Millisecond, SessionTimeout: 6 * time.Second, RebalanceTimeout: 6 * time.Second,
		HeartbeatInterval: 200 * time.Millisecond, JoinGroupBackoff: 100 * time.Millisecond,
	})
	return inGoroutine(t, func(ctx context.Context) {
		for {
			m, err := r.FetchMessage(ctx)
			if errors.Is(err, context.Canceled) {
				break
			}
			var told kafka.Error
			if errors.As(err, &told) && told.Temporary() {
				continue // the reader tries again by itself, as for the first group of a new server
			}
			if !assert.NoError(t, err) {
				break
			}
			h.add(string(m.Value))
			assert.NoError(t, r.CommitMessages(context.WithoutCancel(ctx), m))
		}
		assert.NoError(t, r.Close())
	})
}

// goMember is a member that is part of this process.
type goMember struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func inGoroutine(t *testing.T, run func(context.Context)) groupMember {
	ctx, stop := context.WithCancel(context.Background())
	m := goMember{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		run(ctx)
	}()
	t.Cleanup(func() { m.leave(t) })
	return m
}

func (m goMember) leave(*testing.T) {
	m.stop()
	<-m.ended
}
