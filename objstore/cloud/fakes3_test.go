package cloud_test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeS3 is as much of S3 as the driver uses, for one bucket named "b" in the path, and strict about what many stores that
// are not AWS do not know: it answers 501 to every checksum header and trailer (F-61).
type fakeS3 struct {
	*httptest.Server

	mu struct {
		sync.Mutex
		objects map[string][]byte
		uploads map[string]map[int][]byte
		nextID  int
		// refuse answers a request with a status and an S3 code, 0 to let it pass. It may change the store.
		refuse   func(*http.Request) (status int, code string)
		oneByOne bool // the request that deletes many keys is not known
		// unconditional answers the end of an upload in parts that has a condition: with a status and a code, or by doing without
		// the condition if the status is 0. Nil keeps to it.
		unconditional func() (status int, code string)
		// refused is what the answer to the request that deletes many calls a key that was refused; nil for its name.
		refused  func(key string) string
		requests []string
	}
}

func newFakeS3(t *testing.T) *fakeS3 {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_MAX_ATTEMPTS": "1",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": t.TempDir() + "/none",
	} {
		t.Setenv(name, value)
	}
	f := &fakeS3{}
	f.mu.objects, f.mu.uploads = map[string][]byte{}, map[string]map[int][]byte{}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeS3) url() string { return "s3://b?endpoint=" + f.URL }

// setRefuse replaces what is refused.
func (f *fakeS3) setRefuse(refuse func(*http.Request) (int, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.refuse = refuse
}

// takeRequests returns the requests since the last call.
func (f *fakeS3) takeRequests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests := f.mu.requests
	f.mu.requests = nil
	return requests
}

func (f *fakeS3) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key, inBucket := strings.CutPrefix(r.URL.Path+"/", "/b/")
	key = strings.TrimSuffix(key, "/")
	query := r.URL.Query()
	line := r.Method + " " + key
	for _, name := range []string{"list-type", "uploads", "partNumber", "delete"} {
		if query.Has(name) {
			line += " " + name
		}
	}
	f.mu.requests = append(f.mu.requests, line)
	for name := range r.Header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-checksum-") || strings.HasPrefix(lower, "x-amz-sdk-checksum") ||
			lower == "x-amz-trailer" {
			fail(w, http.StatusNotImplemented, "NotImplemented")
			return
		}
	}
	if f.mu.refuse != nil {
		if status, code := f.mu.refuse(r); status != 0 {
			fail(w, status, code)
			return
		}
	}
	switch {
	case !inBucket:
		fail(w, http.StatusNotFound, "NoSuchBucket")
	case query.Has("delete"):
		f.deleteMany(w, r, body)
	case key == "":
		f.list(w, query.Get("prefix"), query.Get("continuation-token"), query.Get("max-keys"))
	case query.Has("uploads"):
		f.mu.nextID++
		id := strconv.Itoa(f.mu.nextID)
		f.mu.uploads[id] = map[int][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case query.Has("uploadId"):
		f.multipart(w, r, key, body)
	case r.Method == http.MethodPut:
		f.put(w, r, key, body)
	case r.Method == http.MethodDelete:
		delete(f.mu.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		f.get(w, r, key)
	}
}

// deleteMany is strict about what S3 wants of the request: at most 1,000 keys, and their checksum.
func (f *fakeS3) deleteMany(w http.ResponseWriter, r *http.Request, body []byte) {
	sum := md5.Sum(body)
	var asked struct {
		Object []struct{ Key string }
	}
	err := xml.Unmarshal(body, &asked)
	switch {
	case f.mu.oneByOne:
		fail(w, http.StatusNotImplemented, "NotImplemented")
		return
	case r.Header.Get("Content-MD5") != base64.StdEncoding.EncodeToString(sum[:]):
		fail(w, http.StatusBadRequest, "BadDigest")
		return
	case err != nil || len(asked.Object) > 1000:
		fail(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	type failure struct{ Key, Code, Message string }
	result := struct {
		XMLName xml.Name  `xml:"DeleteResult"`
		Errors  []failure `xml:"Error"`
	}{}
	for _, o := range asked.Object {
		if f.mu.refuse != nil {
			one := &http.Request{Method: http.MethodDelete, URL: &url.URL{Path: "/b/" + o.Key}}
			if status, code := f.mu.refuse(one); status != 0 {
				key := o.Key
				if f.mu.refused != nil {
					key = f.mu.refused(key)
				}
				result.Errors = append(result.Errors, failure{key, code, "as the test wants it"})
				continue
			}
		}
		delete(f.mu.objects, o.Key)
	}
	w.Header().Set("Content-Type", "application/xml")
	xml.NewEncoder(w).Encode(result)
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the test wants it</Message></Error>", code)
}

func (f *fakeS3) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	if _, taken := f.mu.objects[key]; taken && r.Header.Get("If-None-Match") == "*" {
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	f.mu.objects[key] = body
	w.Header().Set("ETag", etag(body))
}

func etag(body []byte) string {
	sum := md5.Sum(body)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (f *fakeS3) get(w http.ResponseWriter, r *http.Request, key string) {
	body, ok := f.mu.objects[key]
	if !ok {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", etag(body))
	http.ServeContent(w, r, "object", time.Now(), strings.NewReader(string(body)))
}

func (f *fakeS3) multipart(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	query := r.URL.Query()
	parts, ok := f.mu.uploads[query.Get("uploadId")]
	if !ok {
		fail(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	switch r.Method {
	case http.MethodPut:
		number, _ := strconv.Atoi(query.Get("partNumber"))
		parts[number] = body
		w.Header().Set("ETag", etag(body))
	case http.MethodDelete:
		delete(f.mu.uploads, query.Get("uploadId"))
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		if f.mu.unconditional != nil && r.Header.Get("If-None-Match") != "" {
			if status, code := f.mu.unconditional(); status != 0 {
				fail(w, status, code)
				return
			}
			r.Header.Del("If-None-Match")
		}
		if _, taken := f.mu.objects[key]; taken && r.Header.Get("If-None-Match") == "*" {
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		var whole []byte
		for _, number := range slices.Sorted(maps.Keys(parts)) {
			whole = append(whole, parts[number]...)
		}
		f.mu.objects[key] = whole
		delete(f.mu.uploads, query.Get("uploadId"))
		fmt.Fprint(w, "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")
	}
}

func (f *fakeS3) list(w http.ResponseWriter, prefix, token, maxKeys string) {
	limit, _ := strconv.Atoi(maxKeys)
	type content struct {
		Key          string
		Size         int
		LastModified string
	}
	result := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string    `xml:",omitempty"`
		Contents              []content `xml:"Contents"`
	}{}
	for _, key := range slices.Sorted(maps.Keys(f.mu.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= token {
			continue
		}
		if len(result.Contents) == limit {
			result.IsTruncated = true
			result.NextContinuationToken = result.Contents[limit-1].Key
			break
		}
		at := time.Now().UTC().Format(time.RFC3339)
		result.Contents = append(result.Contents, content{key, len(f.mu.objects[key]), at})
	}
	w.Header().Set("Content-Type", "application/xml")
	xml.NewEncoder(w).Encode(result)
}
