// Package etcd runs the metadata log on real etcd servers: the suite that every backend passes, a network that loses, doubles
// and delays, members that stop while entries are being appended, and users and certificates as etcd has them.
package etcd
