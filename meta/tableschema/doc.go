// Package tableschema reads the schema of a table from its bytes, an Arrow IPC schema message, and decides whether one
// version of a table's schema may follow another.
//
// Commands of the metadata log apply by it, so it must give the same answer in every build and on every node, forever, and
// a bad schema of a client must cost nothing but an error. Therefore it reads the message itself and imports nothing: what
// a library considers well-formed changes with its versions, and nodes with two of them would diverge over one entry of
// the log. It reads within fixed limits, by bounds-checked offsets, and never panics. Its tests compare it with the
// reference implementation of Arrow: what is accepted here is read there, as the same schema.
//
// A column is identified by its field id, which is in the metadata of its field under [FieldIDKey]; its name may change.
package tableschema
