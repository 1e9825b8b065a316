// Package broker speaks the Kafka protocol to clients, and does nothing else.
//
// It reads frames from connections, decodes requests, calls the node through [Backend] and the logs through package
// partition, and writes answers. It keeps no topic, no log and no file of its own: topics come from Backend, records from
// partition, and the only state here is that of connections and of fetch sessions.
//
// Start reading at server.go (life of a server), conn.go (life of a connection: order, limits, timeouts) and versions.go
// (the table of APIs). Every API has a file NN_name.go that opens with a card: its versions, what it does, what each
// version added, and the errors it returns. absent.md lists every API of Kafka 4.4 that is missing here and why.
package broker
