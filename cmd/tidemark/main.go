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
	context.AfterFunc(ctx, endAtOnce)
	code := command.Main(ctx, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}

// endAtOnce ends the process at the second signal, whatever the first one still waits for. What was acknowledged is on
// disk.
func endAtOnce() {
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	<-again
	os.Exit(command.ExitFailed)
}
