package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// DefaultServer is where `tidemark serve` listens for Kafka clients by default.
const DefaultServer = "127.0.0.1:9092"

// requestTimeout bounds how long a command waits for an answer from the server.
const requestTimeout = 15 * time.Second

// clientFlags say which server a command talks to.
type clientFlags struct {
	servers []string
}

func addClientFlags(c *cobra.Command) *clientFlags {
	f := &clientFlags{}
	c.PersistentFlags().StringSliceVarP(&f.servers, "server", "s", []string{DefaultServer},
		"the server to connect to; for a cluster several, separated by commas")
	nameValue(c.PersistentFlags(), "server", "HOST:PORT")
	return f
}

// connect creates a client and checks that a server answers, so that a wrong address is reported at once and in plain
// words. The caller closes the client.
func (f *clientFlags) connect(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(f.servers...),
		kgo.ClientID("tidemark-cli"),
		kgo.RetryTimeout(requestTimeout),
		kgo.DialTimeout(5 * time.Second),
	}, opts...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, f.unreachable(err)
	}
	return client, nil
}

// admin is connect for commands that only administer.
func (f *clientFlags) admin(ctx context.Context) (*kadm.Client, error) {
	client, err := f.connect(ctx)
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(requestTimeout.Milliseconds()))
	return admin, nil
}

// administers returns the RunE of a command that needs only an administrator's connection and its arguments.
func (f *clientFlags) administers(
	output *outputFlag, do func(c *cobra.Command, admin *kadm.Client, args []string, asJSON bool) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		admin, err := f.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		return do(c, admin, args, asJSON)
	}
}

// addresses are the servers, with the port that is used where none was given.
func (f *clientFlags) addresses() []string {
	addresses := slices.Clone(f.servers)
	for i, a := range addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			addresses[i] = net.JoinHostPort(strings.Trim(a, "[]"), "9092")
		}
	}
	return addresses
}

// unreachable explains a failure to reach any server.
func (f *clientFlags) unreachable(err error) error {
	var dns *net.DNSError
	servers := strings.Join(f.addresses(), ", ")
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s; start a server with 'tidemark serve', or name another with --server: %w", servers, err)
	case errors.As(err, &dns):
		return fmt.Errorf("the name %q does not resolve; check --server: %w", dns.Name, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s within %v; is it a Kafka listener?: %w", servers, requestTimeout, err)
	}
	return fmt.Errorf("cannot talk to %s: %w", servers, err)
}

// explain turns an error code of the server about a named thing into a sentence that says what to do.
func explain(what, name string, err error) error {
	if explained := (*notFoundError)(nil); errors.As(err, &explained) {
		return err
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.GroupIDNotFound):
		return &notFoundError{what, name, err}
	case errors.Is(err, kerr.TopicAlreadyExists):
		return fmt.Errorf("%s %q exists already", what, name)
	case errors.Is(err, kerr.InvalidTopicException):
		return fmt.Errorf("%q cannot name a %s: a name has 1 to 249 letters, digits, '.', '_' and '-', and must not differ from "+
			"another topic's only in '.' and '_': %w", name, what, err)
	}
	return fmt.Errorf("%s %q: %w", what, name, err)
}

// explainWith prefers the server's own message if it has one.
func explainWith(what, name string, err error, words string) error {
	for _, plain := range []error{kerr.UnknownTopicOrPartition, kerr.TopicAlreadyExists, kerr.GroupIDNotFound} {
		if errors.Is(err, plain) {
			return explain(what, name, err)
		}
	}
	if words == "" {
		return explain(what, name, err)
	}
	return fmt.Errorf("%s %q: %s", what, name, words)
}

// notFoundError says that nothing of a kind has a name.
type notFoundError struct {
	what, name string // topic or group
	code       error
}

func (e *notFoundError) Error() string {
	return fmt.Sprintf("there is no %s %q; 'tidemark %s list' shows what there is", e.what, e.name, e.what)
}

// Unwrap returns the server's code.
func (e *notFoundError) Unwrap() error { return e.code }

// plainError returns the text of an error, in plain words where the client library's are about request versions.
func plainError(err error) string {
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) && strings.Contains(err.Error(), "broker is too old") {
		return fmt.Sprintf("this server does not answer %s requests", shards.Name)
	}
	return err.Error()
}
