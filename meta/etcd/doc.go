// Package etcd keeps the metadata log of a cluster in etcd, where any number of nodes append to it.
//
// Every append is one transaction that compares the head, stores the entry and moves the head, and is in etcd's own log on
// a majority of its members before it returns. All reads are linearizable. A watch only wakes up waiters: the log is
// always read by index, so lost, late or repeated events make no difference. Expiring keys are attached to leases.
//
// The keys are drawn in keys.go. etcd 3.4 or later is required; the user needs access only to a namespace of its own.
package etcd
