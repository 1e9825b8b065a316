package broker

// Queue is the memory that requests in work hold of [Options.QueuedMaxRequestBytes], and the line for more of it.
type Queue struct {
	Bytes   int64 // held by requests that are read, decoded and answered
	Waiting int   // requests whose connections are not read until others are done
}

// Queue returns what there is at this moment.
func (s *Server) Queue() (q Queue) {
	add := func(held int64, waiting int) {
		q.Bytes += held
		q.Waiting += waiting
	}
	add(s.large.used())
	add(s.answers.Used())
	for _, b := range []*budgets{&s.produce, &s.control} {
		add(b.bytes.used())
		add(b.decoded.Used())
	}
	return q
}
