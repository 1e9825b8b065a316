// Command tidemark is a streaming log server that Kafka clients talk to, and the tools around it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidemark-io/tidemark/cmd/tidemark/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := command.Main(ctx, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
