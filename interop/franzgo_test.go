package interop

import "testing"

func TestFranzGo(t *testing.T) {
	exchange(t, franzGo{}, traits{idempotent: true})
}
