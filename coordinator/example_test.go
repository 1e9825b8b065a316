package coordinator_test

import (
	"fmt"

	"github.com/tidemark-io/tidemark/coordinator"
)

// A shard is driven by hand: the records that it asks for would be appended to its partition, and the replies sent when
// these are durable.
func Example() {
	s := coordinator.NewShard(coordinator.Config{NewID: func() string { return "1" }})
	s.Loaded(0)
	settle := func(out *coordinator.Output) {
		for _, r := range out.Records {
			fmt.Printf("append %T\n", r)
		}
		for _, reply := range out.Settle(nil) {
			switch a := reply.Answer.(type) {
			case *coordinator.JoinAnswer:
				fmt.Println("joined as", a.MemberID, "in generation", a.Generation)
			case *coordinator.SyncAnswer:
				fmt.Println("assigned", string(a.Assignment))
			}
		}
	}
	settle(s.Handle(0, 1, &coordinator.Join{
		Group: "billing", ClientID: "app", SessionMs: 10_000, RebalanceMs: 60_000,
		ProtocolType: "consumer", Protocols: []coordinator.Protocol{{Name: "range"}},
	}))
	settle(s.Tick(0)) // there is no initial delay
	settle(s.Handle(5, 2, &coordinator.Sync{
		Group: "billing", MemberID: "app-1", Generation: 1,
		Assignments: map[string][]byte{"app-1": []byte("everything")},
	}))
	// Output:
	// joined as app-1 in generation 1
	// append coordinator.GroupRecord
	// assigned everything
}
