package admin_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/tidemark-io/tidemark/admin"
)

type starting struct{}

func (starting) Health() error { return nil }

func (starting) Readiness() admin.Readiness {
	return admin.Readiness{Phase: "opening logs", Done: 3, Total: 12, Node: 1}
}

func (starting) Overview() admin.Overview { return admin.Overview{} }

// While a node starts, it is healthy and says what it waits for.
func Example() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := admin.New(admin.Options{Status: starting{}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + listener.Addr().String() + "/readyz")
	if err != nil {
		fmt.Println(err)
		return
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	fmt.Print(answer.StatusCode, " ", string(body))

	fmt.Println(server.Shutdown(context.Background()), <-served)
	// Output:
	// 503 {"ready":false,"phase":"opening logs","done":3,"total":12,"node":1}
	// <nil> <nil>
}
