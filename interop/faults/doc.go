// Package faults runs the real server on real files and takes resources away from it: the space on its disk, its
// descriptors, its data directory. Each test requires the same: clients are told what is wrong, readers and other
// partitions continue, health, metrics and log report it, and once the fault is over nothing that was acknowledged is
// missing.
//
// A full disk is a small tmpfs. Where this process may not mount one, package node's equivalent test runs instead, in
// process and on a quota over the real files. A device error cannot be injected into a process without a device mapper,
// which containers lack, nor can the machine's clock be set: those are tests of package node too.
package faults
