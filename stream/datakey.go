package stream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// DefaultNamespace is the namespace of data objects unless configured otherwise.
const DefaultNamespace = "DEFAULT"

// DataKey returns the key of a data object (1.7). It begins with the id's hexadecimal digits, at least eight, in reverse,
// so that objects made one after the other spread over the store.
//
//	reverse(hex(77)) "/" namespace "/" 77       d4000000/DEFAULT/77
func DataKey(namespace string, id catalog.ObjectID) string {
	hex := []byte(fmt.Sprintf("%08x", uint64(id)))
	for i, j := 0, len(hex)-1; i < j; i, j = i+1, j-1 {
		hex[i], hex[j] = hex[j], hex[i]
	}
	return fmt.Sprintf("%s/%s/%d", hex, namespace, id)
}

// ParseDataKey returns the id of a data object's key of the namespace, or an [*UnknownKeyError].
func ParseDataKey(namespace, key string) (catalog.ObjectID, error) {
	_, last, _ := cutLast(key, "/")
	n, err := strconv.ParseInt(last, 10, 64)
	id := catalog.ObjectID(n)
	if err != nil || n < 0 || DataKey(namespace, id) != key {
		return 0, &UnknownKeyError{Key: key, Want: "HEX/" + namespace + "/ID"}
	}
	return id, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+len(separator):], true
}
