package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemark-io/tidemark/admin"
	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/observe"
)

// graceTime is how long clients may take to receive outstanding answers when the node closes.
const graceTime = time.Second

// openAdmin starts the HTTP listener, which answers while everything else is still being opened.
func (n *Node) openAdmin(ctx context.Context) error {
	if n.config.HTTP == "" {
		return nil
	}
	l, err := listen(ctx, n.config.HTTP)
	if err != nil {
		return err
	}
	n.httpAddr = l.Addr()
	n.admin = admin.New(admin.Options{
		Status:  n.status,
		Metrics: promhttp.HandlerFor(n.reg, promhttp.HandlerOpts{}), LogLevel: n.config.LogLevel, Log: n.log,
		GroupMetrics: n.groupMetricsSwitch(),
	})
	n.serve("the HTTP listener", func() error { return n.admin.Serve(l) }, n.admin.Shutdown)
	n.show(func(s *shown) {
		s.listeners = append(s.listeners, admin.Listener{Name: "http", Address: l.Addr().String()})
	})
	n.log.Info("HTTP listener", "address", n.httpAddr)
	return nil
}

// openBroker starts the Kafka listeners. None takes a client before all are open.
func (n *Node) openBroker(ctx context.Context) error {
	c := n.config
	open, err := listenAll(ctx, c.Kafka)
	if err != nil {
		return err
	}
	for i, l := range open {
		n.kafka = append(n.kafka, KafkaListener{Addr: l.Addr(), Advertised: advertisedBy(c.Kafka[i], l.Addr())})
	}
	server, err := broker.New(broker.Options{
		Backend:                     backend{n},
		Groups:                      coordinatorOf{n},
		Events:                      n.kafka.warnOfLoopback(n.traces.Broker(observe.Broker(n.reg, n.log)), n.log),
		Details:                     n.traces != nil,
		SocketRequestMaxBytes:       c.SocketRequestMaxBytes,
		QueuedMaxRequestBytes:       c.QueuedMaxRequestBytes,
		ConnectionsMaxIdle:          c.ConnectionsMaxIdle,
		MaxConnections:              c.MaxConnections,
		MaxConnectionsPerIP:         c.MaxConnectionsPerIP,
		NumPartitions:               c.NumPartitions,
		DefaultReplicationFactor:    c.DefaultReplicationFactor,
		DisableAutoCreateTopics:     c.DisableAutoCreateTopics,
		DisableDeleteTopics:         c.DisableDeleteTopics,
		FetchMaxBytes:               c.FetchMaxBytes,
		MaxIncrementalFetchSessions: c.FetchSessions,
	})
	if err != nil {
		closeAll(open)
		return err
	}
	observe.Queue(n.reg, server.Queue)
	for i, l := range open {
		n.show(func(s *shown) {
			s.listeners = append(s.listeners, admin.Listener{
				Name: "kafka", Address: l.Addr().String(), Advertised: cmp.Or(n.kafka[i].Advertised, "what they have connected to"),
			})
		})
		n.serve("the Kafka listener "+l.Addr().String(), func() error { return server.Serve(l) }, server.Shutdown)
		n.log.Info("Kafka listener", "address", l.Addr(), "advertised", n.kafka[i].Advertised)
	}
	return nil
}

// listenAll opens every listener, or none.
func listenAll(ctx context.Context, listeners []Listener) (open []net.Listener, err error) {
	for _, wanted := range listeners {
		l, err := listen(ctx, wanted.Listen)
		if err != nil {
			closeAll(open)
			return nil, err
		}
		open = append(open, l)
	}
	return open, nil
}

// closeAll closes listeners that never accepted a client.
func closeAll(open []net.Listener) {
	for _, l := range open {
		_ = l.Close() // no client knows of it
	}
}

// serve runs a server until the node closes. A server that ends before that ends the node's work.
func (n *Node) serve(name string, run func() error, shutdown func(ctx context.Context) error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(); err != nil {
			n.fail(fmt.Errorf("node: %s: %w", name, err))
		}
	}()
	n.undo(name, func(ctx context.Context) error {
		grace, cancel := context.WithTimeout(ctx, graceTime)
		defer cancel()
		err := shutdown(grace)
		<-ended
		if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			n.log.Info("connections whose clients did not take their answers in time were cut", "listener", name)
			return nil
		}
		return err
	})
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", address)
}
