// Package etcd keeps the metadata log of a cluster in etcd, where any number of nodes append to it.
//
// Every append is one transaction that compares the head, stores the entry and moves the head, and is in etcd's own log on
// a majority of its members before it returns. All reads are linearizable. A watch only wakes whoever waits: what is in the
// log is always read by index, so events that are lost, late or repeated change nothing. Expiring keys hang on leases.
//
// The keys are drawn in keys.go. etcd 3.4 and later will do; a namespace of its own is all that the user needs.
package etcd
