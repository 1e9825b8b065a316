// Package metatest has what tests of the metadata log need: [Memory], a backend in memory that can be crashed and
// reopened; [Lossy], which puts lost replies, duplicates and outages in front of any backend; and [Run], the suite that
// every backend passes.
package metatest
