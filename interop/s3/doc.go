// Package s3 runs what is built on object stores against a real S3 server, SeaweedFS, which its tests start.
package s3
