package broker

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// details is what a trace shows of a request beyond what counters need. It belongs to the reader of a connection until
// the answer is queued, then to the writer. It is nil, and keeps nothing, unless [Options.Details] is set.
type details struct {
	topics int
	code   int16 // the first that is not 0
}

// names records how many topics a request names.
func (d *details) names(req kmsg.Request) {
	if d == nil {
		return
	}
	if topics := reflect.ValueOf(req).Elem().FieldByName("Topics"); topics.IsValid() && topics.Kind() == reflect.Slice {
		d.topics = topics.Len()
	}
}

// failed records an error code, unless there was one before.
func (d *details) failed(code int16) {
	if d != nil && d.code == codeNone {
		d.code = code
	}
}

// answers records the first error code of a response.
func (d *details) answers(resp kmsg.Response) {
	if d == nil {
		return
	}
	search := codeSearch{left: searchedStructs}
	search.in(reflect.ValueOf(resp).Elem())
	d.failed(search.found)
}

// searchedStructs bounds how many parts of a response are searched, so that a large one costs no more than a small one.
const searchedStructs = 1000

// codeSearch walks over a response, its outer parts first, until it finds an error code.
type codeSearch struct {
	found int16
	left  int
}

func (s *codeSearch) in(v reflect.Value) {
	if s.left--; s.left < 0 {
		return
	}
	if code := v.FieldByName("ErrorCode"); code.IsValid() && code.Kind() == reflect.Int16 {
		s.found = int16(code.Int())
	}
	for i := 0; i < v.NumField() && s.found == codeNone; i++ {
		f := v.Field(i)
		if f.Kind() != reflect.Slice || f.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for j := 0; j < f.Len() && s.found == codeNone && s.left > 0; j++ {
			s.in(f.Index(j))
		}
	}
}

// tell adds the details to the event of the request.
func (d *details) tell(e *RequestDone) {
	if d != nil {
		e.Topics, e.ErrorCode = d.topics, d.code
	}
}
