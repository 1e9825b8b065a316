// Command streams measures the stream engine on an object store and writes what it found as a table into
// docs/benchmarks.md. bench/streams.sh runs it as it should be run.
//
// Stores are slow or fast; an engine is good if it adds little. So latencies are multiples of the same store's bare PUT,
// measured in the same run and alternating with the engine's appends; read rates are shares of what parallel range GETs
// reach; and requests are counted one by one, with their price at the public list prices of S3.
package main
