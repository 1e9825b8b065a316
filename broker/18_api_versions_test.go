package broker

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestApiVersionsListsEveryKey(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	want := []kmsg.ApiVersionsResponseApiKey{
		{ApiKey: 0, MinVersion: 0, MaxVersion: 13},
		{ApiKey: 1, MinVersion: 4, MaxVersion: 18},
		{ApiKey: 2, MinVersion: 0, MaxVersion: 11},
		{ApiKey: 3, MinVersion: 0, MaxVersion: 13},
		{ApiKey: 8, MinVersion: 1, MaxVersion: 10},
		{ApiKey: 9, MinVersion: 1, MaxVersion: 10},
		{ApiKey: 10, MinVersion: 0, MaxVersion: 6},
		{ApiKey: 11, MinVersion: 0, MaxVersion: 9},
		{ApiKey: 12, MinVersion: 0, MaxVersion: 4},
		{ApiKey: 13, MinVersion: 0, MaxVersion: 5},
		{ApiKey: 14, MinVersion: 0, MaxVersion: 5},
		{ApiKey: 15, MinVersion: 0, MaxVersion: 6},
		{ApiKey: 16, MinVersion: 0, MaxVersion: 5},
		{ApiKey: 18, MinVersion: 0, MaxVersion: 5},
		{ApiKey: 19, MinVersion: 0, MaxVersion: 7},
		{ApiKey: 20, MinVersion: 0, MaxVersion: 6},
		{ApiKey: 21, MinVersion: 0, MaxVersion: 2},
		{ApiKey: 22, MinVersion: 0, MaxVersion: 5},
		{ApiKey: 23, MinVersion: 2, MaxVersion: 4},
		{ApiKey: 32, MinVersion: 1, MaxVersion: 4},
		{ApiKey: 33, MinVersion: 0, MaxVersion: 2},
		{ApiKey: 35, MinVersion: 1, MaxVersion: 5},
		{ApiKey: 37, MinVersion: 0, MaxVersion: 3},
		{ApiKey: 42, MinVersion: 0, MaxVersion: 3},
		{ApiKey: 44, MinVersion: 0, MaxVersion: 1},
		{ApiKey: 47, MinVersion: 0, MaxVersion: 0},
		{ApiKey: 60, MinVersion: 0, MaxVersion: 2},
		{ApiKey: 61, MinVersion: 0, MaxVersion: 0},
		{ApiKey: 74, MinVersion: 0, MaxVersion: 1},
		{ApiKey: 75, MinVersion: 0, MaxVersion: 0},
	}
	for version := int16(0); version <= 5; version++ {
		req := at(version, kmsg.NewPtrApiVersionsRequest())
		req.ClientSoftwareName, req.ClientSoftwareVersion = "tide-client", "1.2.3"
		resp := do[*kmsg.ApiVersionsResponse](c, req)
		require.Equal(t, codeNone, resp.ErrorCode)
		require.Equal(t, want, resp.ApiKeys, "version %d", version)
		if version >= 3 {
			require.Equal(t, []kmsg.ApiVersionsResponseSupportedFeature{
				{Name: "metadata.version", MinVersion: 7, MaxVersion: 33},
			}, resp.SupportedFeatures)
		}
	}
}

func TestF73_ApiVersionsOfAnUnknownVersionIsAnsweredInVersion0(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for _, version := range []int16{6, 127, -1} {
		// A header of version 2 and a body that no schema of today has.
		frame := []byte{0, 18, 0, 0, 0, 0, 0, 99, 0, 1, 'x', 0, 0xFF, 0xFF, 0xFF}
		binary.BigEndian.PutUint16(frame[2:], uint16(version))
		_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
		require.NoError(t, err)
		got := readFrame(t, c.conn)
		require.Equal(t, []byte{0, 0, 0, 99, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}, got)
	}
	// The connection goes on.
	req := at(5, kmsg.NewPtrApiVersionsRequest())
	req.ClientSoftwareName, req.ClientSoftwareVersion = "a", "1"
	require.Equal(t, codeNone, do[*kmsg.ApiVersionsResponse](c, req).ErrorCode)
}

func TestF73_ClientSoftwareNameIsChecked(t *testing.T) {
	tests := []struct {
		name, version string
		want          int16
	}{
		{"apache-kafka-java", "4.4.0", codeNone},
		{"a", "0", codeNone},
		{"a b!", "1", codeInvalidRequest},
		{"a", "1.", codeInvalidRequest},
		{"-a", "1", codeInvalidRequest},
		{"", "1", codeInvalidRequest},
		{"a", "", codeInvalidRequest},
		{"kgö", "1", codeInvalidRequest},
	}
	r := newRig(t)
	c := r.dial()
	for _, test := range tests {
		for version := int16(3); version <= 5; version++ {
			req := at(version, kmsg.NewPtrApiVersionsRequest())
			req.ClientSoftwareName, req.ClientSoftwareVersion = test.name, test.version
			resp := do[*kmsg.ApiVersionsResponse](c, req)
			require.Equal(t, test.want, resp.ErrorCode, "%q %q", test.name, test.version)
			require.Equal(t, test.want != codeNone, len(resp.ApiKeys) == 0)
		}
	}
}

func TestApiVersionsSendsAClientAwayThatExpectsAnother(t *testing.T) {
	tests := []struct {
		cluster *string
		node    int32
		want    int16
	}{
		{nil, -1, codeNone},
		{nil, 99, codeNone},
		{kmsg.StringPtr(testCluster), testNode, codeNone},
		{kmsg.StringPtr(testCluster), -1, codeNone},
		{kmsg.StringPtr(testCluster), 99, codeRebootstrapRequired},
		{kmsg.StringPtr("other"), testNode, codeRebootstrapRequired},
	}
	r := newRig(t)
	c := r.dial()
	for _, test := range tests {
		req := at(5, kmsg.NewPtrApiVersionsRequest())
		req.ClientSoftwareName, req.ClientSoftwareVersion = "a", "1"
		req.ClusterID, req.NodeID = test.cluster, test.node
		resp := do[*kmsg.ApiVersionsResponse](c, req)
		require.Equal(t, test.want, resp.ErrorCode)
		require.Equal(t, test.want != codeNone, len(resp.ApiKeys) == 0)
	}
}

func TestF73_ManyConnectionsAtOnce(t *testing.T) {
	const sockets, pipes = 500, 4500 // a process may not have the descriptors for more sockets
	const n = sockets + pipes
	r := newRig(t)
	addr := r.listen()
	var clients sync.WaitGroup
	ask := func(nc net.Conn) {
		defer nc.Close()
		req := at(5, kmsg.NewPtrApiVersionsRequest())
		req.ClientSoftwareName, req.ClientSoftwareVersion = "a", "1"
		do[*kmsg.ApiVersionsResponse](&client{t: t, conn: nc}, req)
	}
	open := make(chan struct{})
	for range pipes {
		nc := r.dialRaw()
		clients.Go(func() {
			<-open // all of them, then all at once
			ask(nc)
		})
	}
	for range sockets {
		clients.Go(func() {
			<-open
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			ask(nc)
		})
	}
	close(open)
	clients.Wait()
	r.stop()
	require.Len(t, r.events.closed, n)
	require.Empty(t, r.events.refused)
	require.Empty(t, r.server.openConns())
	require.Empty(t, r.server.mu.perIP)
}
