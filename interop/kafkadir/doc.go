// Package kafkadir has Apache Kafka fill a whole log directory with topics of every kind and with committed offsets of
// groups, and asks any Kafka-format server what it serves of them: an import of the directory must serve the same.
package kafkadir

// Settings are those of a broker whose internal topics have this many partitions, and that snapshots its metadata often.
func Settings(internalPartitions string) map[string]string {
	return map[string]string{
		"offsets.topic.num.partitions":                    internalPartitions,
		"transaction.state.log.num.partitions":            internalPartitions,
		"metadata.log.max.record.bytes.between.snapshots": "4000",
		"log.cleaner.enable":                              "false",
		"log.initial.task.delay.ms":                       "3600000",
	}
}
