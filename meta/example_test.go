package meta_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

func Example() {
	ctx := context.Background()
	backend, err := metatest.NewMemory("example").Open() // a server uses embedded.Open
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	log, err := meta.Open(ctx, backend, meta.Options{Node: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()

	_, err = log.Do(ctx, meta.CreateTopic{ID: meta.TopicID{15: 42}, Name: "orders", Partitions: 3})
	fmt.Println("created:", err)
	_, err = log.Do(ctx, meta.CreateTopic{ID: meta.TopicID{15: 43}, Name: "orders", Partitions: 1})
	fmt.Println("again:", err, errors.Is(err, meta.TopicExists))

	view := log.View() // immutable: it stays as it is whatever is proposed next
	for topic := range view.Topics() {
		fmt.Println(topic.Name, topic.ID, topic.Partitions(), topic.LeaderEpoch(0))
	}
	// Output:
	// created: <nil>
	// again: meta: topic exists: topic "orders" exists true
	// orders AAAAAAAAAAAAAAAAAAAAKg 3 0
}

// A change of one topic setting reads, merges, and proposes at the version that it read.
func ExampleSetTopicConfigs() {
	ctx := context.Background()
	backend := metatest.NewMemory("example").Join()
	defer backend.Close()
	log, err := meta.Open(ctx, backend, meta.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	id := meta.TopicID{15: 42}
	_, _ = log.Do(ctx, meta.CreateTopic{ID: id, Name: "orders", Partitions: 1, Configs: map[string]string{"preallocate": "true"}})

	for {
		topic, ok := log.View().TopicByID(id)
		if !ok {
			return
		}
		configs := topic.Configs()
		configs["retention.ms"] = "60000"
		_, err := log.Do(ctx, meta.SetTopicConfigs{ID: id, ExpectedVersion: topic.ConfigVersion, Configs: configs})
		if errors.Is(err, meta.ConfigConflict) {
			continue // somebody else was faster
		}
		break
	}
	topic, _ := log.View().TopicByID(id)
	fmt.Println(topic.Configs())
	// Output: map[preallocate:true retention.ms:60000]
}
