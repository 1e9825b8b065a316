package etcd_test

import (
	"fmt"

	"github.com/tidemark-io/tidemark/meta/etcd"
)

func ExampleParseURL() {
	config, err := etcd.ParseURL("etcd://10.0.0.1,10.0.0.2:2380/prod", etcd.Credentials{User: "tidemark:secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	config.ClusterID = "5L6g3nShT-eMCtK--X86sw"
	fmt.Println(config, config.Endpoints, config.Username)
	// b, err := etcd.Open(ctx, config); l, err := meta.Open(ctx, b, meta.Options{Node: 1})
	// Output: etcd://10.0.0.1:2379,10.0.0.2:2380/prod [10.0.0.1:2379 10.0.0.2:2380] tidemark
}
