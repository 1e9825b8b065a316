// Package tableschema reads the schema of a table from its bytes, an Arrow IPC schema message, and says whether one version
// of a table's schema may follow another.
//
// It is part of how commands of the metadata log apply, so it must give the same answer in every build and on every node, for
// ever, and a schema that a client made must cost nothing but an error. Therefore it reads the message itself and imports
// nothing: a library's idea of what is well-formed moves with its versions, and nodes that run two of them would part over one
// entry of the log. It reads within fixed limits, by bounds-checked offsets, and never panics. Its tests hold it against the
// reference implementation of Arrow: what is accepted here is read there, as the same schema.
//
// A column is known by its field id, which is in the metadata of its field under [FieldIDKey]; its name may change.
package tableschema
