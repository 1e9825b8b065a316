package broker

// Queue shows how much memory of [Options.QueuedMaxRequestBytes] is in use, and how many requests wait for more.
type Queue struct {
	Bytes   int64 // held by requests that are read, decoded and answered
	Waiting int   // requests whose connections are not read until others are done
}

// Queue returns the current numbers.
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
