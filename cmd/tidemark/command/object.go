package command

import (
	"bufio"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/node"
)

func newObject() *cobra.Command {
	c := &cobra.Command{
		Use:   "object",
		Short: "Print objects of a bucket",
		Example: `  tidemark object dump ./bucket/d4000000/DEFAULT/77
  tidemark object dump 's3://bucket/d4000000/DEFAULT/77?region=eu-central-1'`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newObjectDump())
	return c
}

func newObjectDump() *cobra.Command {
	c := &cobra.Command{
		Use:   "dump FILE|URL",
		Short: "Print what an object holds: header, every block or frame, index, footer",
		Long: `Print an object of an object store: an object of the write-ahead log, a data object of one or many streams, a composite,
a range index or a reservation, written by Tidemark or by another implementation of the same formats. Its bytes say which
it is. Every checksum is verified and every block is checked against the index; damage is shown where it is, and the exit
code is then 1. Nothing is written.

URL is s3://BUCKET/KEY, gs://BUCKET/KEY or azblob://CONTAINER/KEY, with options such as ?endpoint=http://127.0.0.1:8333.
Credentials are found as the store's own tools find them.`,
		Example: `  tidemark object dump ./bucket/d4000000/DEFAULT/77
  tidemark object dump 's3://bucket/d4000000/DEFAULT/77?region=eu-central-1' --output json | jq .`,
		Args: exactly("FILE|URL"),
	}
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		store, key, err := node.ReadObject(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		info, err := store.Head(c.Context(), key)
		if err != nil {
			return err
		}
		return dumpObjects(c, asJSON, func(d *objectDump) error {
			return d.object(c.Context(), storedObject{store: store, key: key, size: info.Size})
		})
	}
	return c
}

// dumpObjects runs a dump through a buffer, and flushes it even when the dump fails.
func dumpObjects(c *cobra.Command, asJSON bool, dump func(*objectDump) error) error {
	out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
	d := &objectDump{out: out}
	if asJSON {
		d.json = json.NewEncoder(out)
		d.json.SetEscapeHTML(false)
	}
	err := dump(d)
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if err == nil {
		err = d.verdict()
	}
	return err
}
