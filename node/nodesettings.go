package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// What administrators set for nodes while they run is in the metadata log, so it survives a restart and is in a backup: one
// key for all nodes and one for each node, with the value
//
//	{"version":1,"settings":{"log.retention.ms":"3600000"}}
//
// A key that was never written has no settings. A change is conditional on the version of the key.
const (
	allNodesKey   = "node/settings/default"
	oneNodePrefix = "node/settings/" // and the id
)

// nodeSettingsVersion is the one version of the format.
const nodeSettingsVersion = 1

// storedSettings is the value of a key.
type storedSettings struct {
	Version  int               `json:"version"`
	Settings map[string]string `json:"settings"`
}

// SettingsError says that what was set of nodes cannot be read from the metadata log.
type SettingsError struct {
	Key    string
	Reason string
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("the settings of nodes under the key %s of the metadata log: %s", e.Key, e.Reason)
}

func nodeSettingsKey(id int32) string { return oneNodePrefix + strconv.Itoa(int(id)) }

// readNodeSettings returns what was set under a key.
func readNodeSettings(s *meta.State, key string) (broker.NodeOverrides, error) {
	kv, ok := s.Get(key)
	if !ok {
		return broker.NodeOverrides{}, nil
	}
	var stored storedSettings
	if err := json.Unmarshal(kv.Value, &stored); err != nil {
		return broker.NodeOverrides{}, &SettingsError{Key: key, Reason: err.Error()}
	}
	if stored.Version != nodeSettingsVersion {
		return broker.NodeOverrides{}, &SettingsError{Key: key, Reason: fmt.Sprintf(
			"they are of version %d, and this server reads version %d", stored.Version, nodeSettingsVersion)}
	}
	return broker.NodeOverrides{Version: kv.Version, Settings: stored.Settings}, nil
}

// defaultsInForce are the defaults of topics: what the node was started with, and on top of it what was set of all nodes and
// of this one.
func defaultsInForce(nodes broker.NodeConfigs) (topicconfig.Config, error) {
	config, err := nodes.Static.With(topicconfig.DefaultsOfBroker(nodes.All.Settings))
	if err != nil {
		return config, err
	}
	return config.With(topicconfig.DefaultsOfBroker(nodes.This.Settings))
}

// readableDefaults is defaultsInForce without the settings that this server refuses and another version of it took, which it
// names.
func readableDefaults(nodes broker.NodeConfigs) (config topicconfig.Config, refused []string) {
	config = nodes.Static
	for _, layer := range []broker.NodeOverrides{nodes.All, nodes.This} {
		defaults := topicconfig.DefaultsOfBroker(layer.Settings)
		for _, name := range slices.Sorted(maps.Keys(defaults)) {
			better, err := config.With(map[string]string{name: defaults[name]})
			if err != nil {
				refused = append(refused, name)
				continue
			}
			config = better
		}
	}
	return config, refused
}

// loadNodeSettings puts in force what was set of nodes before this start.
func (n *Node) loadNodeSettings() (err error) {
	view, nodes := n.meta.View(), *n.catalog.nodes.Load()
	if nodes.All, err = readNodeSettings(view, allNodesKey); err != nil {
		return err
	}
	if nodes.This, err = readNodeSettings(view, nodeSettingsKey(n.config.NodeID)); err != nil {
		return err
	}
	if nodes.InForce, err = defaultsInForce(nodes); err != nil {
		var refused []string
		nodes.InForce, refused = readableDefaults(nodes)
		n.log.Warn("defaults that were set while a server ran do not apply", "settings", refused, "error", err)
	}
	n.catalog.nodes.Store(&nodes)
	return nil
}

// setNodeConfigs replaces what is set of this node, or of all. When it returns nil, the settings are durable and every open
// log has them. After a crash in between, the logs are opened with what the metadata log says.
func (n *Node) setNodeConfigs(c broker.SetNodeConfigs) (err error) {
	n.defaults.Lock() // nobody opens or alters a log with the old ones meanwhile
	defer n.defaults.Unlock()
	next := *n.catalog.nodes.Load()
	key, layer := nodeSettingsKey(n.config.NodeID), &next.This
	if c.All {
		key, layer = allNodesKey, &next.All
	}
	if layer.Version != c.Version {
		return broker.ErrConfigChanged
	}
	layer.Settings = c.Settings
	if next.InForce, err = defaultsInForce(next); err != nil {
		return err
	}
	if err := n.catalog.fits(n.meta.View(), next); err != nil || c.ValidateOnly {
		return err
	}
	value, err := json.Marshal(storedSettings{Version: nodeSettingsVersion, Settings: c.Settings})
	if err != nil {
		return err
	}
	leaving := n.leaversUnder(next)
	if err := leaving.prepare(n); err != nil {
		return err
	}
	stored, err := n.meta.Do(n.life, meta.CasKv{Key: key, Expected: c.Version, Value: value})
	switch {
	case err != nil:
		leaving.refused(err)
		return err
	case !stored.Swapped:
		leaving.stay()
		return broker.ErrConfigChanged
	}
	layer.Version = stored.Version
	n.catalog.nodes.Store(&next)
	n.followDefaults()
	n.followProducerExpiry()
	n.log.Info("settings were changed while the server runs", "key", key, "settings", c.Settings)
	return nil
}

// keepDefaults has the settings of nodes stay as they are until the returned function is called. It comes before the lock of
// a topic's name.
func (n *Node) keepDefaults() (release func()) {
	n.defaults.RLock()
	return n.defaults.RUnlock
}

// leaversUnder are the logs that stop following the page cache with other settings of nodes.
func (n *Node) leaversUnder(nodes broker.NodeConfigs) (leaving leavers) {
	view := n.meta.View()
	for t := range view.Topics() {
		h, ok := n.partitions.get(t.ID)
		if !ok {
			continue // it is being deleted
		}
		if config, err := n.catalog.resolveUnder(nodes, t.Name, t.Configs()); err == nil {
			leaving.add(h, n.catalog.topic(view, t).Config, config)
		}
	}
	return leaving
}

// followDefaults gives every open log the settings that its topic has by now.
func (n *Node) followDefaults() {
	view := n.meta.View()
	for t := range view.Topics() {
		h, ok := n.partitions.get(t.ID)
		if !ok {
			continue // it is being deleted
		}
		config := n.catalog.topic(view, t).Config
		for _, l := range h.logs {
			if l != nil {
				l.SetConfig(config)
			}
		}
	}
}
