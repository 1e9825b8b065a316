package command

import (
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/node"
)

// nodeSettings converts the keys to a node's configuration.
func nodeSettings(s config.Server, l limits) node.Config {
	return node.Config{
		DataDir:                  s.DataDir,
		NodeID:                   s.NodeID,
		Kafka:                    kafkaListeners(s),
		HTTP:                     s.HTTPListen,
		InsecureListen:           s.InsecureListen,
		MetaStore:                metaStore(s),
		Store:                    s.Store,
		Streams:                  streamSettings(s),
		MemoryLimit:              l.memory,
		TopicDefaults:            topicDefaults(s),
		TopicPatterns:            topicPatterns(s),
		NumPartitions:            s.NumPartitions,
		DefaultReplicationFactor: s.DefaultReplication,
		DisableAutoCreateTopics:  !s.AutoCreateTopics,
		DisableDeleteTopics:      !s.DeleteTopic,
		MaxPartitions:            noneForZero(int(s.MaxPartitions)),
		DiskReserve:              swapped(s.DiskReserve),
		MaxConnections:           l.connections,
		MaxConnectionsPerIP:      unlimited(s.MaxConnectionsPerIP),
		ConnectionsMaxIdle:       idleTime(s.ConnectionsMaxIdle),
		SocketRequestMaxBytes:    int32(s.SocketRequestMaxBytes),
		QueuedMaxRequestBytes:    l.requestBytes,
		FetchMaxBytes:            int32(s.FetchMaxBytes),
		FetchSessions:            noneForZero(int(s.MaxFetchSessions)),
		RecoveryThreads:          int(s.NumRecoveryThreads),
		MaxOpenFiles:             l.openFiles,
		InitialTaskDelay:         s.InitialTaskDelay,
		RetentionCheck:           s.RetentionCheckInterval,
		ProducerCheck:            s.ProducerIDExpirationCheck,
		ProducerExpiry:           s.ProducerIDExpiration,
		RecoveryPointCheckpoint:  s.RecoveryPointCheckpointInterval,
		LogStartCheckpoint:       s.LogStartCheckpointInterval,
		HighWatermarkCheckpoint:  s.HighWatermarkCheckpointInterval,
		Groups:                   groupSettings(s),
		GroupMetrics:             s.GroupMetrics,
		TraceEndpoint:            s.TraceEndpoint,
		TraceSampleRatio:         traceRatio(s.TraceRatio),
		Version:                  version,
	}
}

// metaStore converts the keys of the metadata log.
func metaStore(s config.Server) node.MetaStore {
	return node.MetaStore{URL: s.MetaURL, CACert: s.MetaCACert, Cert: s.MetaCert, Key: s.MetaKey, User: s.MetaUser}
}

// kafkaListeners pairs listen addresses with advertised ones.
func kafkaListeners(s config.Server) []node.Listener {
	var all []node.Listener
	for i, listen := range s.KafkaListen {
		l := node.Listener{Listen: listen}
		if i < len(s.KafkaAdvertise) {
			l.Advertise = s.KafkaAdvertise[i]
		}
		all = append(all, l)
	}
	return all
}

// groupSettings converts the keys of groups.
func groupSettings(s config.Server) node.GroupConfig {
	delay := s.GroupInitialDelay
	if delay == 0 {
		delay = -1 // means none to node
	}
	return node.GroupConfig{
		OffsetsPartitions:     s.OffsetsPartitions,
		InitialRebalanceDelay: delay,
		MinSessionTimeout:     s.GroupMinSession,
		MaxSessionTimeout:     s.GroupMaxSession,
		MaxSize:               unlimited(s.GroupMaxSize),
		OffsetsRetention:      time.Duration(s.OffsetsRetentionMinutes) * time.Minute,
		OffsetsRetentionCheck: s.OffsetsRetentionCheck,
		OffsetMetadataMax:     int(s.OffsetMetadataMax),
	}
}

// streamSettings converts the keys of streams.
func streamSettings(s config.Server) node.StreamConfig {
	return node.StreamConfig{
		StoreInflight:        int(s.StoreInflight),
		WALBatchBytes:        max(s.WALBatchBytes, 0),
		WALBatchInterval:     swapped(s.WALBatchInterval),
		WALMaxUnflushed:      max(s.WALMaxUnflushed, 0),
		WALInflight:          int(s.WALInflight),
		WALReadahead:         max(s.WALReadahead, 0),
		CacheWALSize:         max(s.CacheWALSize, 0),
		CacheBlockSize:       max(s.CacheBlockSize, 0),
		CacheIndexSize:       max(s.CacheIndexSize, 0),
		UploadThreshold:      s.UploadThreshold,
		UploadInterval:       s.UploadInterval,
		CompactInterval:      s.CompactInterval,
		CompactMinorInterval: s.CompactMinorInterval,
		CompactMajorInterval: s.CompactMajorInterval,
		CompactCache:         max(s.CompactCache, 0),
		CompactBandwidth:     swapped(s.CompactBandwidth),
		NetBandwidth:         s.NetBandwidth,
		GCInterval:           s.GCInterval,
		GCGrace:              s.GCGrace,
	}
}

// topicDefaults returns the settings of all topics: those given by their own names override the server keys that are
// their defaults.
func topicDefaults(s config.Server) map[string]string {
	defaults := map[string]string{"max.message.bytes": strconv.FormatInt(s.MessageMaxBytes, 10)}
	maps.Copy(defaults, s.TopicDefaults)
	return defaults
}

func topicPatterns(s config.Server) []node.TopicPattern {
	var patterns []node.TopicPattern
	for _, p := range s.TopicPatterns {
		patterns = append(patterns, node.TopicPattern{Pattern: p.Pattern, Settings: p.Settings})
	}
	return patterns
}

// unlimited converts a count that means no limit to node's value for it.
func unlimited(n int32) int {
	if n == math.MaxInt32 {
		return 0
	}
	return int(n)
}

// longIdle stands for forever.
const longIdle = 100 * 365 * 24 * time.Hour

// idleTime converts a duration that means forever to one that can be added to a clock.
func idleTime(d time.Duration) time.Duration {
	if d <= 0 || d > longIdle {
		return longIdle
	}
	return d
}

// noneForZero converts 0, which means none, to node's value for that, where 0 is the default.
func noneForZero(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// traceRatio converts no sampling to node's value for it.
func traceRatio(ratio float64) float64 {
	if ratio == 0 {
		return -1
	}
	return ratio
}

// swapped converts between the configuration, where -1 leaves the choice to the server and 0 means none, and node, where
// it is the other way round.
func swapped[N int64 | time.Duration](n N) N {
	switch n {
	case -1:
		return 0
	case 0:
		return -1
	}
	return n
}
