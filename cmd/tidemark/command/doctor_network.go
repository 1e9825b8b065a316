package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/node"
)

// answerTime is how long an address may take to answer.
const answerTime = 3 * time.Second

// examineKafka checks the Kafka listeners and their advertised addresses, whether a server is running or not.
func examineKafka(ctx context.Context, s config.Server) []finding {
	var findings []finding
	var first *kadm.Metadata // from the first listener that answers
	for _, l := range kafkaListeners(s) {
		found, asked := examineListener(ctx, l)
		switch {
		case asked == nil:
		case first == nil:
			first = asked
		case asked.Cluster != first.Cluster || asked.Controller != first.Controller:
			found = append(found, fail("kafka listener", "another server answers at %s: node %d of cluster %s instead of node %d of %s",
				localAddress(l.Listen), asked.Controller, asked.Cluster, first.Controller, first.Cluster))
		}
		findings = append(findings, found...)
	}
	return findings
}

// examineListener checks one Kafka listener. It returns the metadata of the server there, or nil if there is none.
func examineListener(ctx context.Context, l node.Listener) ([]finding, *kadm.Metadata) {
	local := localAddress(l.Listen)
	findings := adviseAdvertised(l)
	if !answers(ctx, local) {
		findings = append(findings, canListen(ctx, "kafka listener", l.Listen))
		if l.Advertise != "" {
			findings = append(findings, resolves(ctx, l.Advertise))
		}
		return findings, nil
	}
	asked, err := askCluster(ctx, local)
	if err != nil {
		return append(findings, fail("kafka listener", "something that does not speak Kafka listens at %s: %v", local, err)), nil
	}
	findings = append(findings, okay("kafka listener", "%s answers: cluster %s", local, asked.Cluster))
	for _, b := range asked.Brokers {
		told := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		findings = append(findings, examineAdvertised(ctx, told, b.NodeID, asked))
	}
	return findings, &asked
}

// localAddress returns the address at which this machine reaches a listener: loopback if it listens on all addresses.
func localAddress(listen string) string {
	host, port, _ := net.SplitHostPort(listen) // the configuration was checked
	if wildcard(host) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// answers reports whether anything accepts connections at an address.
func answers(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: answerTime}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// canListen checks that an address is free while no server is running.
func canListen(ctx context.Context, check, address string) finding {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fail(check, "nothing answers at %s, and a server could not listen there: %v", address, err)
	}
	_ = l.Close() // nobody has connected
	return okay(check, "no server runs at %s; the address is free", address)
}

// askCluster asks one address for the cluster.
func askCluster(ctx context.Context, address string) (kadm.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	kc, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DialTimeout(answerTime), kgo.RetryTimeout(answerTime))
	if err != nil {
		return kadm.Metadata{}, err
	}
	defer kc.Close()
	return kadm.NewClient(kc).BrokerMetadata(ctx)
}

// examineAdvertised checks that an advertised address leads to the node that it belongs to.
func examineAdvertised(ctx context.Context, told string, node int32, asked kadm.Metadata) finding {
	const check = "advertised address"
	if !answers(ctx, told) {
		return fail(check, "%s is advertised, but nothing answers there from here: set --kafka-advertise to an address that "+
			"clients can reach", told)
	}
	there, err := askCluster(ctx, told)
	switch {
	case err != nil:
		return fail(check, "%s is advertised, but what answers there does not speak Kafka: %v", told, err)
	case there.Cluster != asked.Cluster:
		return fail(check, "%s is advertised, but another cluster answers there: %s instead of %s", told, there.Cluster, asked.Cluster)
	}
	return okay(check, "%s answers for node %d", told, node)
}

// adviseAdvertised checks the configuration alone for common mistakes.
func adviseAdvertised(l node.Listener) []finding {
	const check = "advertised address"
	listen, _, _ := net.SplitHostPort(l.Listen) // the configuration was checked
	told, _, _ := net.SplitHostPort(l.Advertise)
	switch {
	case l.Advertise == "" && wildcard(listen):
		return []finding{warn(check, "%s has no --kafka-advertise: clients are given the address that they connected to, which is "+
			"wrong for those outside a container or behind address translation", l.Listen)}
	case l.Advertise != "" && isLoopback(told) && !isLoopback(listen):
		return []finding{warn(check, "%s leads clients on other machines to themselves", l.Advertise)}
	case l.Advertise != "" && wildcard(told):
		return []finding{fail(check, "%s is not an address that a client can connect to", l.Advertise)}
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// resolves checks that this machine resolves the host of an advertised address.
func resolves(ctx context.Context, address string) finding {
	const check = "advertised address"
	host, _, _ := net.SplitHostPort(address) // the configuration was checked
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return warn(check, "%s does not resolve here: %v", host, err)
	}
	return okay(check, "%s is %s", host, strings.Join(found, ", "))
}

// examineHTTP checks the HTTP listener.
func examineHTTP(ctx context.Context, s config.Server) finding {
	const check = "http listener"
	local := localAddress(s.HTTPListen)
	if !answers(ctx, local) {
		return canListen(ctx, check, s.HTTPListen)
	}
	status, text, err := get(ctx, "http://"+local+"/readyz")
	switch {
	case err != nil:
		return fail(check, "%s: %v", local, err)
	case status != http.StatusOK:
		return warn(check, "%s answers, but the server is not ready: %s", local, text)
	}
	return examineReady(check, local, text)
}

// examineReady interprets the readiness report of a server that is ready.
func examineReady(check, local, text string) finding {
	var said struct{ Failed, Warnings []string }
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return warn(check, "%s does not answer as a server of this version does: %v", local, err)
	}
	warnings := strings.Join(said.Warnings, "; ")
	switch {
	case len(said.Failed) > 0:
		return fail(check, "%s answers: %s offline or taking no records: %s. %s", local, plural(len(said.Failed), "partition"),
			strings.Join(said.Failed, ", "), warnings)
	case warnings != "":
		return warn(check, "%s answers: ready. %s", local, warnings)
	}
	return okay(check, "%s answers: ready", local)
}

// get fetches a page and returns its status and the beginning of its text.
func get(ctx context.Context, url string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, "", fmt.Errorf("reading %s: %w", url, err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body)), nil
}
