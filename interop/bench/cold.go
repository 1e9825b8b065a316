package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/tidemark-io/tidemark/batch"
)

// coldPartitions is how many partitions the topic has that is read from disk, and coldFetch how many bytes of each are
// requested at once, as consumers do by default.
const (
	coldPartitions = 12
	coldFetch      = 1 << 20
)

// coldReadings is how often a round reads, for readings from a disk that is shared vary much.
const coldReadings = 3

// coldReader is one way to read the same files over a socket.
type coldReader struct {
	title string
	files []string
	read  func(ctx context.Context) (int64, error) // returns the bytes of records
	rates []float64                                // of the rounds, in MiB/s
}

// cold writes a topic to each server and reads it from disk, alternating with a program that only sends the files of the
// first one with sendfile.
func cold(ctx context.Context, variants []*variant, rounds int, produced time.Duration) (string, error) {
	var readers []*coldReader
	for _, v := range variants {
		if v.server == nil || len(v.topicConfigs) > 0 {
			continue
		}
		topic := "bench-cold-" + v.name
		if err := createTopic(ctx, v, topic, coldPartitions); err != nil {
			return "", err
		}
		if _, err := produce(ctx, v, workloads[0], topic, produced); err != nil {
			return "", err
		}
		files, err := recordFiles(v.server.DataDir(), topic)
		if err != nil {
			return "", err
		}
		readers = append(readers, &coldReader{title: v.title, files: files,
			read: func(ctx context.Context) (int64, error) { return fetchAll(ctx, v.addr, topic) }})
	}
	if len(readers) == 0 {
		return "", nil
	}
	sender, err := startSender(ctx, readers[0].files)
	if err != nil {
		return "", err
	}
	defer sender.Close()
	readers = append(readers, &coldReader{title: "`sendfile` of the first server's files", files: readers[0].files,
		read: func(ctx context.Context) (int64, error) { return receiveAll(ctx, sender.Addr().String()) }})
	for _, r := range readers { // a reading that does not count, so that the host's own cache does not know the files of one only
		if err := r.measure(ctx); err != nil {
			return "", err
		}
		r.rates = nil
	}
	for reading := range coldReadings * rounds {
		for i := range readers {
			r := readers[i]
			if reading%2 == 1 {
				r = readers[len(readers)-1-i]
			}
			if err := r.measure(ctx); err != nil {
				return "", err
			}
			fmt.Printf("reading %d  cold %-40s %6.0f MiB/s\n", reading+1, r.title, r.rates[len(r.rates)-1])
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Cold consume: a topic of %d partitions, dropped from the page cache before each reading, fetched over one connection "+
		"by a client that throws it away, 1 MiB of each partition a request; %d readings.\n\n| server | MiB/s | of sendfile |\n|---|---:|---:|\n",
		coldPartitions, coldReadings*rounds)
	as := func(rate float64) float64 { return rate }
	base := spreadOf(readers[len(readers)-1].rates, as).median
	for _, r := range readers {
		s := spreadOf(r.rates, as)
		fmt.Fprintf(&b, "| %s | %s | %.0f%% |\n", r.title, s.format("%.0f"), 100*s.median/base)
	}
	return b.String(), nil
}

func (r *coldReader) measure(ctx context.Context) error {
	if err := evict(r.files); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	began := time.Now()
	n, err := r.read(ctx)
	if err != nil {
		return fmt.Errorf("bench: %s: %w", r.title, err)
	}
	r.rates = append(r.rates, float64(n)/(1<<20)/time.Since(began).Seconds())
	return nil
}

// recordFiles lists the record files of a topic, wherever under the directory they are.
func recordFiles(dir, topic string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(filepath.Dir(path)), topic+"-") && filepath.Ext(path) == ".log" {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// evict writes files to the disk and drops them from the page cache.
func evict(files []string) error {
	syscall.Sync()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchAll reads a topic to its end over one connection and returns the bytes of its batches.
func fetchAll(ctx context.Context, addr, topic string) (int64, error) {
	w, err := dialWire(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer w.close()
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.ReplicaID, r.SessionEpoch = 11, 100, 1, 64<<20, -1, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for i := range int32(coldPartitions) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch = i, coldFetch, -1
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = []kmsg.FetchRequestTopic{t}
	total := int64(0)
	for len(r.Topics[0].Partitions) > 0 {
		answer, err := w.ask(r)
		if err != nil {
			return 0, err
		}
		response := kmsg.NewPtrFetchResponse()
		response.Version = 11
		if err := response.ReadFrom(answer); err != nil {
			return 0, err
		}
		left := r.Topics[0].Partitions[:0]
		for _, p := range r.Topics[0].Partitions {
			i := slices.IndexFunc(response.Topics[0].Partitions, func(a kmsg.FetchResponseTopicPartition) bool {
				return a.Partition == p.Partition
			})
			if i < 0 {
				return 0, fmt.Errorf("partition %d is not in the answer", p.Partition)
			}
			answered := response.Topics[0].Partitions[i]
			if answered.ErrorCode != 0 {
				return 0, fmt.Errorf("partition %d: %w", p.Partition, kerr.ErrorForCode(answered.ErrorCode))
			}
			n, end := wholeBatches(answered.RecordBatches)
			total += n
			p.FetchOffset = max(p.FetchOffset, end)
			if p.FetchOffset < answered.HighWatermark {
				left = append(left, p)
			}
		}
		r.Topics[0].Partitions = left
	}
	return total, nil
}

// wholeBatches walks the headers of the batches of an answer, and returns their bytes and the offset behind the last, or -1.
func wholeBatches(b []byte) (n, end int64) {
	end = -1
	for len(b) >= batch.HeaderSize {
		h, err := batch.ParseHeader(b)
		if err != nil || h.Size() > len(b) {
			break
		}
		n += int64(h.Size())
		end = h.NextOffset()
		b = b[h.Size():]
	}
	return n, end
}

// startSender listens and sends every connection the files, one after the other, with sendfile, and without pacing, as Tidemark
// does for a client on its own machine.
func startSender(ctx context.Context, files []string) (net.Listener, error) {
	unpaced := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) (err error) {
		controlled := socket.Control(func(fd uintptr) {
			err = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CONGESTION, "reno")
		})
		return errors.Join(controlled, err)
	}}
	listener, err := unpaced.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			for _, name := range files {
				if err := sendFile(conn, name); err != nil {
					break // the receiver will notice the missing bytes
				}
			}
			_ = conn.Close()
		}
	}()
	return listener, nil
}

// sendFile sends a file.
func sendFile(conn net.Conn, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(conn, f) // which is sendfile
	return err
}

// receiveAll reads all that the sender sends into the same memory again and again.
func receiveAll(ctx context.Context, addr string) (int64, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	into := make([]byte, coldPartitions*coldFetch)
	total := int64(0)
	for {
		n, err := io.ReadFull(conn, into)
		total += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return total, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
