// Package importer brings the topics of a stopped Apache Kafka node (KRaft) into a Tidemark data directory.
//
//	im, err := importer.Open(ctx, importer.Options{Sources: []string{"/var/lib/kafka"}, Target: "tidemark-data", NodeID: 1})
//	defer im.Close()
//	im.Plan()            // what would be taken, and what cannot
//	im.Execute(ctx)      // take it
//
// The files are the same on both sides. What remains is to read from Kafka's metadata log which directories belong to
// which topics, to recover each log as Kafka would, to verify it, and to add it to Tidemark's metadata log. See wire.go
// and image.go for the records of Kafka's metadata log.
//
// # Crashes
//
// Nothing incomplete is ever served, and an import that was interrupted can be run again:
//
//	TARGET/kafka-import/plan.json    what is being taken, before anything is
//	TARGET/kafka-import/work/ORDERS-0  a partition that is being brought over
//	TARGET/kafka-import/done/ORDERS-0  one that is whole, verified and synced
//
// Once every partition is in done/, the metadata log records that an import is in progress, so that no server starts; the
// directories move to their places; the topics are added; the record is removed. A second run finds out how far the first
// one came. Until that record exists the target is unchanged but for the directory kafka-import, and the source is
// unchanged unless partitions are moved: then those in kafka-import are no longer in the source.
package importer
