package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAURLNamesHostsAndTheLog(t *testing.T) {
	c, err := ParseURL("etcd://one:1,two,[::1]:3/prod", Credentials{User: "me:a:b"})
	require.NoError(t, err)
	require.Equal(t, Config{
		Endpoints: []string{"one:1", "two:2379", "[::1]:3"}, Name: "prod", Username: "me", Password: "a:b",
	}, c)
	require.Equal(t, "etcd://one:1,two:2379,[::1]:3/prod", c.String())
	c, err = ParseURL("etcds://one/prod", Credentials{})
	require.NoError(t, err)
	require.NotNil(t, c.TLS)
	require.Equal(t, "etcds://one:2379/prod", c.String())
}

func TestAURLThatIsWrongSaysWhyAndShowsNoPassword(t *testing.T) {
	for text, want := range map[string]string{
		"http://one/prod":             "meta: http://one/prod: it begins with neither etcd:// nor etcds://",
		"etcd://one":                  "meta: etcd://one: after the hosts comes /NAME, of 1 to 100 letters, digits, '.', '_' and '-'",
		"etcd://one/a/b":              "meta: etcd://one/a/b: after the hosts comes /NAME, of 1 to 100 letters, digits, '.', '_' and '-'",
		"etcd:///prod":                `meta: etcd:///prod: "" is no HOST:PORT`,
		"etcd://one,:2/prod":          `meta: etcd://one,:2/prod: ":2" is no HOST:PORT`,
		"etcd://me:secret@one:1/prod": "meta: etcd://***@one:1/prod: a user goes into a setting of its own and not into the URL",
	} {
		_, err := ParseURL(text, Credentials{})
		var fault *URLError
		require.ErrorAs(t, err, &fault)
		require.EqualError(t, err, want)
	}
}

// certificate writes a certificate that signs itself, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

func TestFilesOfCredentialsTurnTLSOn(t *testing.T) {
	cert, key := certificate(t)
	c, err := ParseURL("etcd://one/prod", Credentials{CACert: cert, Cert: cert, Key: key})
	require.NoError(t, err)
	require.Len(t, c.TLS.Certificates, 1)
	require.NotNil(t, c.TLS.RootCAs)

	for want, wrong := range map[string]Credentials{
		"no such file":           {CACert: cert + "x"},
		"holds no certificate":   {CACert: key},
		"needs its key":          {Cert: cert},
		"its certificate":        {Key: key},
		"may have been switched": {Cert: key, Key: cert},
	} {
		_, err := ParseURL("etcd://one/prod", wrong)
		require.ErrorContains(t, err, want)
	}
}
