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

// Settings that administrators change while nodes run are in the metadata log, so they survive a restart and are part of
// a backup: one key for all nodes and one for each node, with the value
//
//	{"version":1,"settings":{"log.retention.ms":"3600000"}}
//
// A key that was never written has no settings. A change is conditional on the version of the key.
const (
	allNodesKey   = "node/settings/default"
	oneNodePrefix = "node/settings/" // and the id
)

// nodeSettingsVersion is the only version of the format.
const nodeSettingsVersion = 1

// storedSettings is the value of a key.
type storedSettings struct {
	Version  int               `json:"version"`
	Settings map[string]string `json:"settings"`
}

// SettingsError says that the settings of nodes cannot be read from the metadata log.
type SettingsError struct {
	Key    string
	Reason string
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("the settings of nodes under the key %s of the metadata log: %s", e.Key, e.Reason)
}

func nodeSettingsKey(id int32) string { return oneNodePrefix + strconv.Itoa(int(id)) }

// readNodeSettings returns the settings under a key.
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

// defaultsInForce are the defaults of topics: those that the node was started with, overridden by the settings for all
// nodes and for this one.
func defaultsInForce(nodes broker.NodeConfigs) (topicconfig.Config, error) {
	config, err := nodes.Static.With(topicconfig.DefaultsOfBroker(nodes.All.Settings))
	if err != nil {
		return config, err
	}
	return config.With(topicconfig.DefaultsOfBroker(nodes.This.Settings))
}

// readableDefaults is defaultsInForce without the settings that another version accepted and this one refuses. It returns
// their names.
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

// loadNodeSettings applies the settings of nodes that were made before this start.
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

// setNodeConfigs replaces the settings of this node, or those of all. When it returns nil, the settings are durable and
// every open log has them. After a crash in between, the logs are opened with what the metadata log says.
func (n *Node) setNodeConfigs(c broker.SetNodeConfigs) (err error) {
	n.defaults.Lock() // no log is opened or altered with the old ones meanwhile
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

// keepDefaults keeps the settings of nodes unchanged until release is called. It is taken before the lock of a topic's
// name.
func (n *Node) keepDefaults() (release func()) {
	n.defaults.RLock()
	return n.defaults.RUnlock
}

// leaversUnder returns the logs that stop following the page cache under other settings of nodes.
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

// followDefaults applies the current settings to every open log.
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
