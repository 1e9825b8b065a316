package command

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// completionTime is how long a shell waits for names from the server.
const completionTime = 2 * time.Second

// completer offers words for an argument.
type completer func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeTopics offers the names of topics on the server.
func (f *clientFlags) completeTopics(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(c, args, typed, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		topics, err := admin.ListTopics(ctx)
		return topics.Names(), err
	})
}

// completeGroups offers the names of groups on the server.
func (f *clientFlags) completeGroups(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(c, args, typed, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		groups, err := admin.ListGroups(ctx)
		return groups.Groups(), err
	})
}

// complete asks the server for names and offers those that match what was typed and are not on the line yet. Without a
// server it offers nothing.
func (f *clientFlags) complete(
	c *cobra.Command, args []string, typed string, names func(context.Context, *kadm.Client) ([]string, error),
) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.servers...), kgo.DialTimeout(completionTime))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.Close()
	all, err := names(ctx, kadm.NewClient(client))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	taken := map[string]bool{}
	for _, word := range args {
		taken[word] = true
	}
	var offered []cobra.Completion
	for _, name := range all {
		if strings.HasPrefix(name, typed) && !taken[name] {
			offered = append(offered, name)
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// onlyFirst offers words for the first argument only.
func onlyFirst(words completer) completer {
	return func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(c, args, typed)
	}
}
