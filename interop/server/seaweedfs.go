package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// SeaweedUser is a user of the SeaweedFS servers started here.
type SeaweedUser struct {
	AccessKey, SecretKey string
}

// SeaweedAdmin may create buckets, explicitly or by writing to them.
func SeaweedAdmin() SeaweedUser { return SeaweedUser{"tidemark-admin", "tidemark-admin-secret"} }

// SeaweedClient may use existing buckets, as a server should be allowed to.
func SeaweedClient() SeaweedUser { return SeaweedUser{"tidemark", "tidemark-secret"} }

// NewSeaweed prepares SeaweedFS, an object store that speaks S3, as one process with all its data under dir, which must
// exist. It does not start it. Its Addr is the S3 port, over plain HTTP.
func NewSeaweed(in Install, dir string) (*Server, error) {
	ports := map[string]string{}
	addrs := map[string]string{}
	for _, flag := range []string{
		"s3.port", "s3.port.grpc", "filer.port", "filer.port.grpc", "volume.port", "volume.port.grpc", "master.port",
		"master.port.grpc",
	} {
		addr, err := freeAddr()
		if err != nil {
			return nil, fmt.Errorf("seaweedfs: %w", err)
		}
		u := url.URL{Host: addr}
		ports[flag], addrs[flag] = u.Port(), addr
	}
	users, err := writeSeaweedUsers(dir)
	if err != nil {
		return nil, fmt.Errorf("seaweedfs: %w", err)
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("seaweedfs: %w", err)
	}
	args := []string{
		"-logtostderr", "server", "-s3", "-dir=" + data, "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.config=" + users,
		"-master.volumeSizeLimitMB=64", "-volume.max=" + strconv.Itoa(seaweedVolumes), "-master.telemetry=false",
	}
	for flag, port := range ports {
		args = append(args, "-"+flag+"="+port)
	}
	return &Server{
		name: "seaweedfs", addr: addrs["s3.port"], dataDir: data, ask: answersHTTP("http://" + addrs["s3.port"] + "/status"),
		command: func() *exec.Cmd {
			command := exec.Command(in.seaweed(), args...)
			command.Dir = dir
			return command
		},
	}, nil
}

// MakeSeaweedBucket creates an empty bucket in the SeaweedFS whose S3 port is addr, and returns the URL with which a
// [SeaweedClient] may open it.
func MakeSeaweedBucket(ctx context.Context, addr, name string) (bucket string, err error) {
	endpoint, admin := "http://"+addr, SeaweedAdmin()
	client := s3.New(s3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(admin.AccessKey, admin.SecretKey, ""),
	})
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name}); err != nil {
		return "", fmt.Errorf("seaweedfs: bucket %s: %w", name, err)
	}
	return SeaweedBucket(addr, name), nil
}

// SeaweedBucket returns the URL of a bucket, whether it exists or not.
func SeaweedBucket(addr, name string) string {
	return "s3://" + name + "?endpoint=" + url.QueryEscape("http://"+addr)
}

// seaweedVolumes is how many files of 64 MB it may keep objects in; a bucket takes several.
const seaweedVolumes = 600

// seaweed is where setup.sh built the program.
func (in Install) seaweed() string { return filepath.Join(in.cache, "seaweedfs", "weed") }

func writeSeaweedUsers(dir string) (path string, err error) {
	type credential struct {
		AccessKey string `json:"accessKey"`
		SecretKey string `json:"secretKey"`
	}
	type identity struct {
		Name        string       `json:"name"`
		Credentials []credential `json:"credentials"`
		Actions     []string     `json:"actions"`
	}
	use := []string{"Read", "Write", "List", "Tagging"}
	of := func(u SeaweedUser, actions ...string) identity {
		return identity{u.AccessKey, []credential{{u.AccessKey, u.SecretKey}}, actions}
	}
	users, err := json.Marshal(map[string][]identity{
		"identities": {of(SeaweedAdmin(), append(use, "Admin")...), of(SeaweedClient(), use...)},
	})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "s3.json")
	return path, os.WriteFile(path, users, 0o600)
}

// answersHTTP returns a request to a web server, which succeeds when a GET is answered with 200.
func answersHTTP(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", answer.Status)
		}
		return nil
	}
}
