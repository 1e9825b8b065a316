package topicconfig

import "fmt"

// conflicts returns the rules between settings that c breaks, the same ones that Kafka checks: the compaction lags, and
// what a topic with remote storage may combine.
func conflicts(c *Config) []error {
	var out []error
	if c.MinCompactionLagMs > c.MaxCompactionLagMs {
		out = append(out, &ConflictError{
			Names: []string{"min.compaction.lag.ms", "max.compaction.lag.ms"},
			Reason: fmt.Sprintf("min.compaction.lag.ms (%d) must not be more than max.compaction.lag.ms (%d)",
				c.MinCompactionLagMs, c.MaxCompactionLagMs),
		})
	}
	if !c.RemoteStorageEnable {
		return out
	}
	if c.CleanupPolicy.Compacts() {
		out = append(out, &ConflictError{
			Names:  []string{"cleanup.policy", "remote.storage.enable"},
			Reason: "remote.storage.enable needs a cleanup.policy of delete or of the empty list",
		})
	}
	size := localPair{"local.retention.bytes", "retention.bytes", "remote.copy.lag.bytes",
		c.LocalRetentionBytes, c.RetentionBytes, c.RemoteCopyLagBytes}
	age := localPair{"local.retention.ms", "retention.ms", "remote.copy.lag.ms",
		c.LocalRetentionMs, c.RetentionMs, c.RemoteCopyLagMs}
	for _, p := range []localPair{size, age} {
		out = append(out, p.conflicts(c.RemoteLogCopyDisable)...)
	}
	return out
}

// localPair compares what local disk keeps with what the whole log keeps, in one unit.
type localPair struct {
	localName, totalName, lagName string
	local, total, lag             int64 // local -2 is total; total below 0 is no limit; lag -1 is local
}

func (p localPair) conflicts(copyDisabled bool) []error {
	var out []error
	names := []string{p.localName, p.totalName}
	if p.total >= 0 && p.local == -1 {
		out = append(out, &ConflictError{Names: names, Reason: fmt.Sprintf(
			"%s must not be -1, no limit, while %s is %d", p.localName, p.totalName, p.total)})
	}
	if p.total >= 0 && p.local > p.total {
		out = append(out, &ConflictError{Names: names, Reason: fmt.Sprintf(
			"%s (%d) must not be more than %s (%d)", p.localName, p.local, p.totalName, p.total)})
	}
	if copyDisabled && p.local != -2 && p.local != p.total {
		out = append(out, &ConflictError{Names: names, Reason: fmt.Sprintf(
			"with remote.log.copy.disable, %s (%d) must equal %s (%d): nothing more is copied", p.localName, p.local,
			p.totalName, p.total)})
	}
	effective := p.local
	if effective == -2 {
		effective = p.total
	}
	if effective >= 0 && p.lag > effective {
		out = append(out, &ConflictError{Names: []string{p.lagName, p.localName}, Reason: fmt.Sprintf(
			"%s (%d) must not be more than %s (%d in effect)", p.lagName, p.lag, p.localName, effective)})
	}
	return out
}
