package command

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newBenchNull() *cobra.Command {
	var listen string
	var partitions int32
	c := &cobra.Command{
		Use:   "null",
		Short: "Run a server that acknowledges everything and stores nothing",
		Long: `Run a server that acknowledges everything and stores nothing, until it is interrupted. 'bench produce' against it shows
what the client and the network can do at most. Every topic exists.`,
		Example: `  tidemark bench null --listen 127.0.0.1:9999
  tidemark bench produce --server 127.0.0.1:9999`,
		Args: noArguments,
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the address to listen on; port 0 picks a free one")
	nameValue(c.Flags(), "listen", "HOST:PORT")
	c.Flags().Int32Var(&partitions, "partitions", 6, "how many partitions every topic has")
	nameValue(c.Flags(), "partitions", "N")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if partitions < 1 {
			return usagef(c, "--partitions is at least 1, not %d", partitions)
		}
		s, err := startNullServer(c.Context(), listen, partitions)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "a server that stores nothing listens on %s\nready\n", s.address())
		<-c.Context().Done()
		produced := s.close()
		_, err = fmt.Fprintf(c.OutOrStdout(), "acknowledged and dropped %s of records\n", size(produced))
		return err
	}
	return c
}

// nullServer answers the requests of a producer and discards the records.
type nullServer struct {
	listener   net.Listener
	partitions int32
	produced   atomic.Int64
	offset     atomic.Int64

	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
	done  sync.WaitGroup
}

func startNullServer(ctx context.Context, listen string, partitions int32) (*nullServer, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, err
	}
	s := &nullServer{listener: l, partitions: partitions, open: map[net.Conn]bool{}}
	s.done.Go(s.accept)
	return s, nil
}

func (s *nullServer) address() string { return s.listener.Addr().String() }

// close cuts all connections and returns how many bytes of records were acknowledged.
func (s *nullServer) close() int64 {
	s.mu.Lock()
	s.ended = true
	_ = s.listener.Close() // there is nothing to lose
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
	return s.produced.Load()
}

func (s *nullServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.ended {
			_ = conn.Close()
			s.mu.Unlock()
			return
		}
		s.open[conn] = true
		s.mu.Unlock()
		s.done.Go(func() {
			_ = s.serve(conn) // a peer that disconnects or misbehaves is cut off
			s.mu.Lock()
			delete(s.open, conn)
			s.mu.Unlock()
			_ = conn.Close()
		})
	}
}

// maxNullRequest is the largest request that is read.
const maxNullRequest = 128 << 20

func (s *nullServer) serve(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 256<<10)
	var frame, answer []byte
	for {
		var prefix [4]byte
		if _, err := io.ReadFull(in, prefix[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(prefix[:]))
		if n < 8 || n > maxNullRequest {
			return errors.New("a request of an impossible size")
		}
		if cap(frame) < n {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		var err error
		if answer, err = s.answer(answer[:0], frame); err != nil {
			return err
		}
		if len(answer) == 0 {
			continue // acks=0
		}
		if _, err := conn.Write(answer); err != nil {
			return err
		}
	}
}

// answer appends the response to a request, with its size:
//
//	key 2 | version 2 | correlation 4 | client id 2+n | tags, if flexible | body
func (s *nullServer) answer(dst, frame []byte) ([]byte, error) {
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	req := kmsg.RequestForKey(key)
	if req == nil {
		return nil, fmt.Errorf("a request with the unknown key %d", key)
	}
	var resp kmsg.Response
	if version > nullVersions[key] || nullVersions[key] == 0 {
		if key != apiVersions {
			return nil, fmt.Errorf("%s is not answered here in version %d", kmsg.NameForKey(key), version)
		}
		version = 0 // as every server does, so that the client retries with version 0
		resp = s.versions(0)
		resp.(*kmsg.ApiVersionsResponse).ErrorCode = kerr.UnsupportedVersion.Code
	} else {
		req.SetVersion(version)
		body, err := requestBody(frame, req.IsFlexible())
		if err != nil {
			return nil, err
		}
		if err := req.ReadFrom(body); err != nil {
			return nil, err
		}
		if resp = s.respond(req); resp == nil {
			return dst, nil
		}
	}
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, frame[4:8]...)
	if resp.IsFlexible() && key != apiVersions { // whose header must be readable before versions are agreed on
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-4))
	return dst, nil
}

// requestBody skips the client id and the tags of a request's header.
func requestBody(frame []byte, flexible bool) ([]byte, error) {
	rest := frame[8:]
	if len(rest) < 2 {
		return nil, io.ErrUnexpectedEOF
	}
	if n := int16(binary.BigEndian.Uint16(rest)); n > 0 {
		if len(rest) < 2+int(n) {
			return nil, io.ErrUnexpectedEOF
		}
		rest = rest[n:]
	}
	rest = rest[2:]
	if flexible {
		if len(rest) == 0 || rest[0] != 0 {
			return nil, errors.New("a request header with tags")
		}
		rest = rest[1:]
	}
	return rest, nil
}

// The keys of supported requests.
const (
	produce        int16 = 0
	metadata       int16 = 3
	apiVersions    int16 = 18
	initProducerID int16 = 22
)

// nullVersions are the newest supported versions.
var nullVersions = map[int16]int16{produce: 13, metadata: 13, apiVersions: 4, initProducerID: 5}

func (s *nullServer) respond(req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		return s.produce(req)
	case *kmsg.MetadataRequest:
		return s.metadata(req)
	case *kmsg.ApiVersionsRequest:
		return s.versions(req.Version)
	case *kmsg.InitProducerIDRequest:
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID = 1
		return resp
	}
	return nil
}

func (s *nullServer) produce(req *kmsg.ProduceRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			s.produced.Add(int64(len(p.Records)))
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.BaseOffset, rp.LogAppendTime = p.Partition, s.offset.Add(1<<20), -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if req.Acks == 0 {
		return nil
	}
	return resp
}

func (s *nullServer) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	cluster, controller := "null", int32(1)
	resp.ClusterID, resp.ControllerID = &cluster, controller
	host, port, _ := net.SplitHostPort(s.address()) // a bound address
	number, _ := strconv.Atoi(port)
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port = 1, host, int32(number)
	resp.Brokers = append(resp.Brokers, broker)
	for _, t := range req.Topics {
		if t.Topic == nil {
			continue
		}
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = t.Topic
		sum := sha256.Sum256([]byte(*t.Topic))
		copy(rt.TopicID[:], sum[:])
		for p := range s.partitions {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Leader, rp.Replicas, rp.ISR = p, 1, []int32{1}, []int32{1}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (s *nullServer) versions(version int16) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	for _, key := range []int16{produce, metadata, apiVersions, initProducerID} {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, nullVersions[key]
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp
}
