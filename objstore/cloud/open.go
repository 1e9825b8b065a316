package cloud

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
)

// Limits and default of [Options.PartBytes].
const (
	MinPartBytes     = 5 << 20
	DefaultPartBytes = 16 << 20
)

// Options adjust a store. The zero value is usable.
type Options struct {
	// PartBytes is how many bytes of an [objstore.Upload] are sent in one request; an upload holds up to six parts in memory.
	// At least [MinPartBytes]; the default value is [DefaultPartBytes].
	PartBytes int
	// Replaces is called, once, if a multipart upload to the store may replace an object that appears while it is sent,
	// as described in the package documentation. It is called by the first call of [Store.Create], and must not block.
	// May be nil.
	Replaces func()
}

func (o Options) withDefaults() (Options, error) {
	if o.PartBytes == 0 {
		o.PartBytes = DefaultPartBytes
	}
	if o.PartBytes < MinPartBytes {
		return o, fmt.Errorf("parts of %d bytes, want at least %d", o.PartBytes, MinPartBytes)
	}
	return o, nil
}

// schemes are the providers that Open knows.
var schemes = []string{"s3", "gs", "azblob"}

// Open opens the store that a URL names, as described in the package documentation. It does not access the
// bucket: ask [objstore.Probe] whether it is there and does what is needed.
func Open(ctx context.Context, rawURL string, o Options) (*Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("open object store: malformed URL: %w", withoutURL(err))
	}
	name := displayName(u)
	if !knownScheme(u.Scheme) {
		return nil, fmt.Errorf("open object store %s: scheme %q, want one of %s", name, u.Scheme, strings.Join(schemes, ", "))
	}
	if u.Host == "" {
		return nil, fmt.Errorf("open object store %s: the URL names no bucket", name)
	}
	if u.User != nil {
		return nil, fmt.Errorf("open object store %s: credentials do not belong into the URL", name)
	}
	prefix, err := pathPrefix(u)
	if err != nil {
		return nil, fmt.Errorf("open object store %s: %w", name, err)
	}
	provider := providerURL(u)
	// Google's library fetches tokens with this context for as long as the process runs, whatever else is opened.
	bucket, err := blob.OpenBucket(context.WithoutCancel(ctx), provider.String())
	if err != nil { // it repeats the URL
		return nil, fmt.Errorf("open object store %s: %s", name, strings.ReplaceAll(err.Error(), provider.String(), name))
	}
	var client *s3.Client
	isS3 := bucket.As(&client)
	if prefix != "" {
		bucket = blob.PrefixedBucket(bucket, prefix)
	}
	s, err := New(bucket, name, o)
	if err != nil {
		bucket.Close()
		return nil, fmt.Errorf("open object store %s: %w", name, err)
	}
	query := provider.Query()
	s.checksums = u.Scheme == "s3" && query.Get("request_checksum_calculation") != "when_required"
	if isS3 {
		s.s3 = newS3Bucket(client, u.Host, prefix, query, s.part, s.checksums)
		s.batch = &batchDeleter{s3Bucket: s.s3}
		if !s.checksums {
			s.batch.options = append(s.batch.options, withContentMD5)
		}
	}
	return s, nil
}

func knownScheme(scheme string) bool {
	for _, s := range schemes {
		if s == scheme {
			return true
		}
	}
	return false
}

// withoutURL takes the URL, which may hold secrets, out of an error of url.Parse.
func withoutURL(err error) error {
	if e, ok := err.(*url.Error); ok {
		return e.Err
	}
	return err
}

// displayName is the URL without what may be secret.
func displayName(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// pathPrefix is the prefix of every key, from the URL's path.
func pathPrefix(u *url.URL) (string, error) {
	path := strings.Trim(u.Path, "/")
	if path == "" {
		return "", nil
	}
	return path + "/", checkPath(path)
}

// providerURL is the URL as gocloud.dev wants it: without the path, and with the defaults of stores that are not AWS.
func providerURL(u *url.URL) *url.URL {
	query := u.Query()
	if u.Scheme == "s3" && query.Get("endpoint") != "" {
		setDefault(query, "use_path_style", "true")
		setDefault(query, "request_checksum_calculation", "when_required")
		setDefault(query, "response_checksum_validation", "when_required")
		if os.Getenv("AWS_REGION") == "" && os.Getenv("AWS_DEFAULT_REGION") == "" && query.Get("profile") == "" {
			setDefault(query, "region", "us-east-1")
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, RawQuery: query.Encode()}
}

func setDefault(query url.Values, key, value string) {
	if !query.Has(key) && !(key == "use_path_style" && query.Has("s3ForcePathStyle")) {
		query.Set(key, value)
	}
}
