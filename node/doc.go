// Package node puts the rooms together into one running server: it opens the data directory, the metadata log and the
// partitions, serves clients, and closes everything in the reverse order.
//
// # Start
//
//	lock the data directory      nobody else uses it
//	HTTP listener                healthy, not ready; /readyz says what start-up waits for
//	meta.properties              cluster, node and directory ids, written once and checked at every start
//	metadata log                 the start is refused if it is missing but there is data
//	clean-shutdown marker        read and removed; without it the start is unclean and leader epochs rise
//	directories                  known ones are opened, deletions continue, unknown ones are moved aside
//	partitions                   opened several at a time; after an unclean stop their tails are checked and synced
//	Kafka listener               ready
//
// # A topic is created and deleted by its metadata
//
// Creating makes the directories durable first, with the topic's id in each, and then the metadata, which is the moment
// at which the topic exists. A crash before it leaves directories that no metadata knows: the next start moves them
// aside. Deleting writes first that the topic is being deleted and that it is gone, and then renames and later removes
// the directories; a crash in between is taken up at the next start.
//
// Nothing is ever deleted merely because the metadata does not know it.
package node
