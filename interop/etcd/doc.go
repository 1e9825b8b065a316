// Package etcd tests the metadata log on real etcd servers: the suite that every backend passes, a network that loses,
// duplicates and delays, members that stop while entries are being appended, and etcd's users and certificates.
package etcd
