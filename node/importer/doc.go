// Package importer brings the topics of a stopped Apache Kafka node (KRaft) into a Tidemark data directory.
//
//	im, err := importer.Open(ctx, importer.Options{Sources: []string{"/var/lib/kafka"}, Target: "tidemark-data", NodeID: 1})
//	defer im.Close()
//	im.Plan()            // what would be taken, and what cannot
//	im.Execute(ctx)      // take it
//
// The files are the same on both sides. What has to be done is to read from Kafka's metadata log which directories are
// which topics, to recover each log as Kafka would, to verify it, and to tell Tidemark's metadata log. See wire.go and
// image.go for the records of Kafka's metadata log.
//
// # Crashes
//
// Nothing that is half there is ever served, and what was begun can be run again:
//
//	TARGET/kafka-import/plan.json    what is being taken, before anything is
//	TARGET/kafka-import/work/ORDERS-0  a partition that is being brought over
//	TARGET/kafka-import/done/ORDERS-0  one that is whole, verified and synced
//
// Once every partition is in done/, the metadata log notes that an import is under way, so that no server starts; the
// directories get their places; the topics are made known; the note is removed. A second run finds out how far the first
// one came. Until the note is there the target is as it was, but for the directory kafka-import, and the source is as it
// was unless partitions are moved: then those that are in kafka-import are not in the source any more.
package importer
