package config_test

import (
	"fmt"

	"github.com/tidemark-io/tidemark/config"
)

func ExampleLoad() {
	loaded, err := config.Load(config.Sources{
		Flags:   map[string][]string{"topic-default": {"retention.ms=3600000"}},
		Environ: []string{"TIDEMARK_FETCH_MAX_BYTES=32MiB", "TIDEMARK_NUM_PARTITIONS=6"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(loaded.Server.NumPartitions, loaded.Server.FetchMaxBytes, loaded.Server.TopicDefaults)

	_, err = config.Load(config.Sources{Environ: []string{"TIDEMARK_NUM_PARTITION=6"}})
	fmt.Println(err)
	// Output:
	// 6 33554432 map[retention.ms:3600000]
	// environment: unknown key TIDEMARK_NUM_PARTITION (did you mean TIDEMARK_NUM_PARTITIONS?)
}
