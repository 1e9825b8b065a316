package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// survey makes the plan of an import from the source.
func (im *Import) survey(ctx context.Context) (*Plan, error) {
	s := im.source
	p := &Plan{
		Target: im.o.Target, How: im.o.How, ClusterID: s.meta.ClusterID, NodeID: s.meta.NodeID, Clean: true,
		BrokerConfigs: s.image.brokerConfigs(s.meta.NodeID), NextProducerID: s.image.nextProducerID,
	}
	p.TopicDefaults = im.missingDefaults(p.BrokerConfigs)
	for _, d := range s.dirs {
		p.Sources = append(p.Sources, d.path)
		p.Clean = p.Clean && d.clean
	}
	for _, t := range slices.SortedFunc(maps.Values(s.image.topics), byName) {
		p.Topics = append(p.Topics, im.surveyTopic(t))
	}
	p.Left = im.leftovers()
	return p, im.surveyLogs(ctx, p)
}

func byName(a, b *kraftTopic) int { return cmp.Compare(a.name, b.name) }

// surveyTopic decides from the metadata whether a topic can be taken.
func (im *Import) surveyTopic(k *kraftTopic) Topic {
	t := Topic{Name: k.name, ID: k.id, Configs: map[string]string{}}
	im.surveyConfigs(&t)
	t.Refused = im.refusal(&t)
	for i := range int32(len(k.partitions)) {
		kp, known := k.partitions[i]
		if !known {
			t.refuse("the metadata log has no partition %d of it, of %d", i, len(k.partitions))
			continue
		}
		p := Partition{Index: i, LeaderEpoch: kp.leaderEpoch, HighWatermark: -1}
		name := logdir.Partition{Topic: k.name, Index: i}
		d, here := im.source.find(name)
		switch node := im.source.meta.NodeID; {
		case !here && !slices.Contains(kp.replicas, node):
			t.refuse("partition %d is on other nodes %v", i, kp.replicas)
		case !here:
			t.refuse("the directory of partition %d is not there", i)
		case kp.leader != node && kp.leader != noLeader:
			t.refuse("the leader of partition %d was node %d: import that node's directory", i, kp.leader)
		case !kp.whole(node):
			t.refuse("partition %d may lack committed records here: the in-sync replicas are %v, the eligible ones %v", i, kp.isr,
				kp.eligible)
		default:
			p.place(d, name)
		}
		t.Partitions = append(t.Partitions, p)
	}
	if len(k.partitions) == 0 {
		t.refuse("the metadata log has no partition of it")
	}
	return t
}

// refuse marks a topic as not importable. The first reason stays.
func (t *Topic) refuse(format string, args ...any) {
	if t.Refused == "" {
		t.Refused = fmt.Sprintf(format, args...)
	}
}

// place records what a log directory says about a partition in it.
func (p *Partition) place(d *sourceDir, name logdir.Partition) {
	p.Dir, p.Clean = d.dir.PartitionPath(name), d.clean
	p.RecoveryPoint, p.CheckedStart = d.recovered[name], d.starts[name]
	if hw, ok := d.watermarks[name]; ok {
		p.HighWatermark = hw
	}
}

// surveyConfigs sorts the topic's settings into those that are imported and those that cannot be.
func (im *Import) surveyConfigs(t *Topic) {
	all := im.source.image.configs[resource{resourceTopic, t.Name}]
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := map[string]string{name: all[name]}
		if _, err := topicconfig.Parse(one); err != nil {
			t.Dropped = append(t.Dropped, Setting{Name: name, Value: all[name], Reason: err.Error()})
			continue
		}
		t.Configs[name] = all[name]
	}
	if _, err := topicconfig.Parse(t.Configs); err != nil {
		t.refuse("its settings contradict each other here: %v", err)
	}
}

// refusal returns why a topic cannot be taken whatever its partitions are, or "".
func (im *Import) refusal(t *Topic) string {
	for _, pattern := range im.o.Exclude {
		if matched, _ := path.Match(pattern, t.Name); matched { // Open checked the patterns
			return "it is excluded"
		}
	}
	config, err := topicconfig.Parse(t.Configs)
	switch {
	case t.Refused != "":
		return t.Refused
	case err == nil && config.RemoteStorageEnable:
		return "part of it is in a remote tier, which only Kafka can read"
	}
	if err == nil && config.CleanupPolicy.Compacts() && !strings.HasPrefix(t.Name, "__") {
		t.note("compacted: taken as the cleaner left it; how far it had come is not taken")
	}
	if im.store == nil {
		return ""
	}
	view := im.store.View()
	if there, ok := view.Topic(t.Name); ok {
		if t.There = there.ID == meta.TopicID(t.ID); !t.There {
			return "the target has another topic of this name, with id " + there.ID.String()
		}
		return ""
	}
	if other, ok := view.CollidingTopic(t.Name); ok {
		return fmt.Sprintf("the target has topic %q, whose name differs only in . and _", other)
	}
	if err := im.store.CheckSettings(t.Name, t.Configs); err != nil {
		return err.Error()
	}
	return ""
}

// leftovers lists the directories that no plan takes.
func (im *Import) leftovers() []Left {
	var left []Left
	for _, d := range im.source.dirs {
		for _, e := range d.entries {
			if reason := im.leftover(e); reason != "" {
				left = append(left, Left{Dir: path.Join(d.path, e.Name), Reason: reason})
			}
		}
	}
	return left
}

func (im *Import) leftover(e logdir.Entry) string {
	switch {
	case e.Kind == logdir.UnknownDir:
		return "it is no partition's: " + e.Err.Error()
	case e.Kind == logdir.IndexCacheEntry:
		return "it is a cache of a remote tier"
	case e.Kind != logdir.PartitionEntry:
		return ""
	case e.Dir.Role == logdir.Delete:
		return "it was being deleted"
	case e.Dir.Role == logdir.Stray:
		return "Kafka had moved it aside: its topic was not this node's"
	case e.Dir.Role == logdir.Future:
		return "it was being copied to another log directory"
	case e.Dir.Partition.Topic == metadataTopic:
		return "it is Kafka's metadata log: what it says of topics is taken"
	}
	for _, t := range im.source.image.topics {
		if t.name == e.Dir.Partition.Topic {
			if _, known := t.partitions[e.Dir.Partition.Index]; known {
				return ""
			}
			return "its topic has no such partition"
		}
	}
	return "the metadata log has no topic of this name"
}

// surveyLogs opens every log that may be taken, in memory over its files, and records its state after recovery.
func (im *Import) surveyLogs(ctx context.Context, plan *Plan) error {
	var mu sync.Mutex
	var tasks []func()
	for _, t := range plan.Taken() {
		for i := range t.Partitions {
			tasks = append(tasks, func() {
				highest, err := im.surveyLog(t, &t.Partitions[i])
				mu.Lock()
				defer mu.Unlock()
				plan.NextProducerID = max(plan.NextProducerID, highest+1)
				if err != nil {
					t.refuse("partition %d: %v", i, err)
				}
			})
		}
	}
	total := int64(len(tasks))
	err := parallel.Each(ctx, len(tasks), im.o.Workers, func(i int) {
		tasks[i]()
		im.step("survey", 1, total)
	})
	for _, t := range plan.Taken() {
		t.noteLogs()
	}
	return err
}

// noteLogs adds the notes about a topic's logs.
func (t *Topic) noteLogs() {
	for _, p := range t.Partitions {
		if p.HighWatermark >= 0 && p.End > p.HighWatermark {
			t.note("partition %d: %d offsets from %d on are above Kafka's last high watermark checkpoint; they are kept", p.Index,
				p.End-p.HighWatermark, p.HighWatermark)
		}
	}
}

// surveyLog looks at one log. It returns the highest producer id in it.
func (im *Import) surveyLog(t *Topic, p *Partition) (highest int64, err error) {
	m, err := logdir.ReadMetadata(im.source.fs, p.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, err
	case m.TopicID != t.ID:
		return 0, fmt.Errorf("the directory belongs to another topic, with id %s", m.TopicID)
	}
	if err := p.measure(im.source.fs); err != nil {
		return 0, err
	}
	l, env, err := im.openLog(overlay.New(im.source.fs), p.Dir, p)
	if err != nil {
		return 0, errors.Join(err, env.Close())
	}
	p.Start, p.End = l.LogStart(), l.LogEnd()
	if epoch, ok := l.LatestEpoch(); ok {
		p.LeaderEpoch = max(p.LeaderEpoch, epoch)
	}
	p.LeaderEpoch++ // a new leader begins a new term
	return highestProducer(l), errors.Join(l.Close(), env.Close())
}

func highestProducer(l *kafkalog.Log) int64 {
	highest := int64(-1)
	for _, producer := range l.ActiveProducers() {
		highest = max(highest, producer.ProducerID)
	}
	return highest
}

// measure sizes a partition's files.
func (p *Partition) measure(fsys vfs.FS) error {
	list, err := fsys.List(p.Dir)
	if err != nil {
		return err
	}
	p.Bytes, p.Modified = 0, 0
	for _, e := range list {
		if !wanted(e) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		p.Bytes += info.Size()
		p.Modified = max(p.Modified, info.ModTime().UnixNano())
	}
	return nil
}

// wanted reports whether a file of a partition is taken. Files that Kafka has retired, or had not finished writing, are
// not.
func wanted(e fs.DirEntry) bool {
	return !e.IsDir() && !strings.HasSuffix(e.Name(), ".deleted") && !strings.HasSuffix(e.Name(), ".tmp")
}

// openLog opens and recovers a log that Kafka wrote. The caller closes both results, also after an error.
func (im *Import) openLog(fsys vfs.FS, dir string, p *Partition) (*kafkalog.Log, *kafkalog.Env, error) {
	var mu sync.Mutex
	repairs := []string{}
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: fsys, Now: im.o.Now, Events: kafkalog.Events{
		PartialBatch: func(e kafkalog.PartialBatchEvent) {
			mu.Lock()
			defer mu.Unlock()
			repairs = append(repairs, fmt.Sprintf("%s, position %d: %d bytes are cut off, and the log then ends at offset %d: %v",
				path.Base(e.File), e.Position, e.Cut, e.Offset, e.Reason))
		},
	}})
	config := kafkalog.DefaultConfig()
	config.RetentionMs = -1
	config.ProducerExpirationMs = neverExpire
	l, err := kafkalog.Open(env, dir, kafkalog.Options{
		Config: config, Clean: p.Clean, Foreign: true, RecoveryPoint: p.RecoveryPoint, LogStart: p.CheckedStart,
	})
	if err != nil {
		return nil, env, err
	}
	mu.Lock()
	defer mu.Unlock()
	p.Repairs = repairs
	return l, env, nil
}
