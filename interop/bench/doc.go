// Command bench drives Kafka-format servers side by side with one client and writes what it measured as a table into
// docs/benchmarks.md. bench/kafka.sh runs it as it should be run.
//
// A measurement is one phase of one workload on one server: producing for a while, or consuming what was just produced.
// Phases of all servers alternate, round after round, and the order turns around each round, so that what else the
// machine does falls on all of them. A server's cost is the processor time that its process used, from /proc, divided by
// the records; that hardly depends on the client, which needs the same cores.
//
// Before the first round Apache Kafka is put under load until its compiler has done its work (100 s), and tidemark for a
// tenth of that. Between phases the page cache is written out, so that one server's dirty pages are not another's bill.
//
// With -fill the page cache is filled before each producing phase (pagecache.go): a machine with much free memory is not what a
// broker runs on, and on a virtual one the host's work for a fresh page can be most of what is measured.
//
// The server called null measures the client alone: a sink in this program takes everything, stores nothing and acknowledges.
// The one called floor is that sink in a process of its own that writes each batch to a file and does nothing else (floor.go): what
// a server needs above it is its own.
//
// Then follow, each in a file of its own: end-to-end latency at a steady pace (endtoend.go), reading what is not in the page
// cache beside a program that only sends the files (cold.go), and the life of a server with 5,000 partitions (starts.go).
//
// `bench flusher` measures how long an acknowledgement takes by the number of partitions that are written to at once.
// bench/flusher.sh runs it.
//
// `bench groups` measures something else: what one server at rest holds and how often it wakes with thousands of partitions
// and hundreds of groups, without and with members. bench/groups.sh runs it.
package main
