// Package twoprocess runs the stream engine in two real processes that share one bucket of a real S3 server and one real
// etcd: one appends and is paused or killed, and the other one takes its node over.
package twoprocess
