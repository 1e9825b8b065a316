package meta

import "math"

// AdoptTopic creates a topic that another server served: with the leader epochs that its partitions had reached, one
// for each partition, none negative. Names, settings and results are those of [CreateTopic].
type AdoptTopic struct {
	ID           TopicID
	Name         string
	LeaderEpochs []int32
	Configs      map[string]string
}

// RaiseProducerIDs ensures that no producer id below Next is handed out from now on: another server has handed them
// out. Result: the first id that may be, in ID; rejected as [InvalidArgument] when ids would run out.
type RaiseProducerIDs struct{ Next uint64 }

// Type returns 53.
func (AdoptTopic) Type() uint8 { return numAdoptTopic }

// Type returns 120.
func (RaiseProducerIDs) Type() uint8 { return numRaiseProducerIDs }

func (c AdoptTopic) encode(w *writer) {
	w.raw(c.ID[:])
	w.str(c.Name)
	w.count(len(c.LeaderEpochs))
	for _, epoch := range c.LeaderEpochs {
		w.i32(epoch)
	}
	encodeConfigs(w, sortedConfigs(c.Configs))
}

func decodeAdoptTopic(r *reader) Command {
	c := AdoptTopic{ID: r.id(), Name: r.str()}
	for range r.count(4) {
		c.LeaderEpochs = append(c.LeaderEpochs, r.i32())
	}
	c.Configs = decodeConfigs(r)
	return c
}

func (c RaiseProducerIDs) encode(w *writer) { w.u64(c.Next) }

func (c AdoptTopic) apply(t *transition) Result {
	create := CreateTopic{ID: c.ID, Name: c.Name, Configs: c.Configs}
	create.Partitions = int32(min(len(c.LeaderEpochs), MaxPartitions+1))
	for p, epoch := range c.LeaderEpochs {
		if epoch < 0 || epoch == math.MaxInt32 {
			return reject(InvalidArgument, "leader epoch %d of partition %d of topic %q", epoch, p, c.Name)
		}
	}
	if r := create.apply(t); r.Code != OK {
		return r
	}
	made, _ := t.topic(c.ID)
	adopted := *made
	adopted.leaderEpochs = append([]int32(nil), c.LeaderEpochs...)
	t.putTopic(&adopted)
	return Result{}
}

func (c RaiseProducerIDs) apply(t *transition) Result {
	if c.Next > maxProducerID {
		return reject(InvalidArgument, "no producer ids are left above %d", c.Next)
	}
	t.next.nextProducerID = max(t.next.nextProducerID, c.Next)
	return Result{ID: t.next.nextProducerID}
}
