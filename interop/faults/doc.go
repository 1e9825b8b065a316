// Package faults runs the real server on real files and takes things away from it: the space on its disk, its descriptors,
// its data directory. Each test holds it to the same: clients are told what is wrong, readers and other partitions go on,
// health, metrics and log say so, and once the fault is over nothing that was acknowledged is missing.
//
// A full disk is a small tmpfs. Where this process may not mount one, package node's test of the same runs instead, in
// process and on a quota over the real files. An error of the device cannot be made for a process without a device mapper,
// which containers lack, nor can the machine's clock be set: those too are tests of package node.
package faults
