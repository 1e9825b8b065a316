package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/node"
)

// closeTimeout bounds a clean stop: after it, open logs are abandoned, and the next start recovers them.
const closeTimeout = 20 * time.Second

func newServe() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a server on this machine",
		Long: `Run a server. With no flags it keeps its data in ./tidemark-data, listens for Kafka clients on 127.0.0.1:9092, serves
health and metrics on 127.0.0.1:9180, and prints where to connect. SIGTERM or Ctrl-C stops it cleanly.

Settings come from flags, then TIDEMARK_* environment variables, then the --config file: the first that has a setting wins.
'tidemark config' prints the result. Every key that it lists is also a flag, including those not shown here.`,
		Example: `  tidemark serve
  tidemark serve --data-dir /var/lib/tidemark --kafka-listen 0.0.0.0:9092 --kafka-advertise broker1:9092 --insecure-listen
  tidemark serve --topic-default retention.ms=86400000`,
		Args: noArguments,
	}
	settings := addServerFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := settings.load(c)
		if err != nil {
			return err
		}
		return serve(c.Context(), loaded, c.OutOrStdout(), c.ErrOrStderr())
	}
	return c
}

// serve runs a server until ctx is done or it fails.
func serve(ctx context.Context, loaded *config.Loaded, out, errOut io.Writer) error {
	server := loaded.Server
	logger, level, err := newLogger(errOut, server)
	if err != nil {
		return err
	}
	if idle := unservedKeys(loaded); len(idle) > 0 {
		logger.Warn("these settings have no effect: this version does not serve Arrow Flight", "settings", idle)
	}
	allowed := machineLimits(server)
	allowed.apply(server, logger)
	manager := newServiceManager(os.Getenv(notifySocket), logger)
	defer manager.close()
	settings := nodeSettings(server, allowed)
	settings.Log, settings.LogLevel, settings.Progress = logger, level, manager.progress
	n, err := node.Open(ctx, settings)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting
		}
		return explainStart(server, err)
	}
	announce(out, server, n)
	manager.ready()
	select {
	case <-ctx.Done():
		logger.Info("stopping")
	case <-n.Done():
	}
	manager.stopping()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(n.Err(), n.Close(closing))
}

// unservedKeys lists keys that were set but belong to a part that this version does not have.
func unservedKeys(loaded *config.Loaded) []string {
	var keys []string
	for _, v := range loaded.Values {
		switch v.Key {
		case "flight-listen", "flight-advertise":
			if v.Source != config.DefaultSource && v.Value != "" {
				keys = append(keys, v.Key)
			}
		}
	}
	return keys
}

// announce prints the addresses to connect to.
func announce(out io.Writer, server config.Server, n *node.Node) {
	addrs := n.Addrs()
	fmt.Fprintf(out, "tidemark %s, data in %s\n", version, server.DataDir)
	for _, l := range addrs.KafkaListeners {
		fmt.Fprintf(out, "  kafka  %s  (advertised: %s)\n", l.Addr, cmp.Or(l.Advertised, "the address that a client connects to"))
	}
	if addrs.HTTP != nil {
		fmt.Fprintf(out, "  http   http://%s  (/ /healthz /readyz /metrics)\n", addrs.HTTP)
	}
	fmt.Fprintln(out, "ready")
}

// newLogger creates the server's logger, and the level that can be changed while the server runs.
func newLogger(w io.Writer, server config.Server) (*slog.Logger, *slog.LevelVar, error) {
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(server.LogLevel)); err != nil {
		return nil, nil, fmt.Errorf("log-level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	if server.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), level, nil
	}
	return slog.New(slog.NewTextHandler(w, options)), level, nil
}
