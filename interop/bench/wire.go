package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a connection to a Kafka server without a client around it, so that what is measured is the server and the socket.
// It is for one goroutine.
type wire struct {
	conn      net.Conn
	formatter *kmsg.RequestFormatter
	sent      int32
	out, in   []byte
}

func dialWire(ctx context.Context, addr string) (*wire, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// ask sends a request, whose version is set, and returns the bytes of its answer after the correlation id. They are valid
// until the next call.
func (w *wire) ask(r kmsg.Request) ([]byte, error) {
	w.sent++
	w.out = w.formatter.AppendRequest(w.out[:0], r, w.sent)
	if _, err := w.conn.Write(w.out); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:])) - 4
	if size < 0 || binary.BigEndian.Uint32(head[4:]) != uint32(w.sent) {
		return nil, errors.New("bench: not the answer to the request")
	}
	if cap(w.in) < size {
		w.in = make([]byte, size)
	}
	w.in = w.in[:size]
	_, err := io.ReadFull(w.conn, w.in)
	return w.in, err
}

// firstAnswer polls every millisecond until a new server names itself as a broker.
func firstAnswer(ctx context.Context, addr string) error {
	r := kmsg.NewPtrMetadataRequest()
	r.Version, r.Topics = 1, []kmsg.MetadataRequestTopic{}
	for {
		err := func() error {
			w, err := dialWire(ctx, addr)
			if err != nil {
				return err
			}
			defer w.close()
			answer, err := w.ask(r)
			if err != nil {
				return err
			}
			metadata := kmsg.NewPtrMetadataResponse()
			metadata.Version = 1
			if err := metadata.ReadFrom(answer); err != nil {
				return err
			}
			if len(metadata.Brokers) == 0 {
				return errors.New("it names no broker")
			}
			return nil
		}()
		if err == nil {
			return nil
		}
		if pauseErr := pause(ctx, time.Millisecond); pauseErr != nil {
			return fmt.Errorf("bench: %s does not answer: %w", addr, errors.Join(pauseErr, err))
		}
	}
}
