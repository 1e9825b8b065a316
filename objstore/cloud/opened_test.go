package cloud

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAStoreOutlivesTheContextThatItWasOpenedWith: Google's library keeps that for as long as the store is used, to fetch tokens
// with. Whoever waits for a store only so long at a start would otherwise have one that fails when its first token expires.
func TestAStoreOutlivesTheContextThatItWasOpenedWith(t *testing.T) {
	var asked atomic.Int32
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadRequest) // that it is asked is enough: a token would be sent to the real store
	}))
	defer tokens.Close()
	credentials := filepath.Join(t.TempDir(), "credentials.json")
	require.NoError(t, os.WriteFile(credentials, fmt.Appendf(nil,
		`{"type": "authorized_user", "client_id": "id", "client_secret": "secret", "refresh_token": "refresh", "token_uri": %q}`, tokens.URL), 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", credentials)

	ctx, cancel := context.WithCancel(t.Context())
	s, err := Open(ctx, "gs://bucket?universe_domain="+strings.ToLower(rand.Text())+".test", Options{})
	require.NoError(t, err)
	defer s.Close()
	cancel()
	_, err = s.Head(t.Context(), "key")
	require.Error(t, err)
	require.NotErrorIs(t, err, context.Canceled)
	require.NotZero(t, asked.Load(), "%v", err)
}
