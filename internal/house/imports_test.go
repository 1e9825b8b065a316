package house

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowedImports is the whole house: package, then the packages of ours that its code (not its tests) may import. A
// package that is not a row may not exist; an import that is not in its row may not be made.
var allowedImports = map[string][]string{
	"vfs":         nil,
	"vfs/memfs":   {"vfs"},
	"vfs/faultfs": {"vfs"},
	"vfs/overlay": {"vfs"},
	"vfs/vfstest": {"vfs"},

	"batch":       nil,
	"topicconfig": nil,
	"config":      nil,
	"logdir":      {"vfs"},
	"kafkalog":    {"batch", "vfs"},

	"objstore":              nil,
	"objstore/mem":          {"objstore"},
	"objstore/dir":          {"objstore", "vfs"},
	"objstore/cloud":        {"objstore"},
	"objstore/faultstore":   {"objstore"},
	"objstore/objstoretest": {"objstore"},

	"stream":                     {"internal/parallel", "objstore", "stream/catalog"},
	"stream/catalog":             nil,
	"stream/catalog/catalogtest": {"stream/catalog"},

	"meta":             {"meta/tableschema", "stream/catalog"},
	"meta/embedded":    {"meta", "vfs"},
	"meta/etcd":        {"meta"},
	"meta/metatest":    {"meta"},
	"meta/tableschema": nil,

	"coordinator":         nil,
	"coordinator/records": {"coordinator"},
	"coordinator/runner":  {"coordinator", "coordinator/records"},

	"partition":         {"kafkalog", "batch", "topicconfig", "vfs", "partition/journal"},
	"partition/journal": {"batch", "vfs"},
	"broker":            {"partition", "batch", "topicconfig", "coordinator"},
	"admin":             nil,
	"observe":           {"kafkalog", "partition", "broker", "meta", "objstore", "stream", "stream/catalog"},
	"node": {
		"vfs", "batch", "kafkalog", "topicconfig", "logdir", "meta", "meta/embedded", "meta/etcd", "partition", "broker",
		"admin", "observe", "coordinator", "coordinator/runner", "objstore", "objstore/dir", "objstore/cloud", "stream",
		"stream/catalog", "vfs/overlay",
	},
	"node/nodetest": {"node", "vfs", "vfs/memfs", "meta", "meta/metatest", "topicconfig"},
	"node/importer": {"node", "kafkalog", "batch", "logdir", "meta", "topicconfig", "vfs", "vfs/overlay"},

	"cmd/tidemark": {"cmd/tidemark/command"},
	"cmd/tidemark/command": {
		"config", "node", "node/importer", "kafkalog", "batch", "vfs", "vfs/overlay", "logdir", "meta", "topicconfig",
		"objstore", "stream", "stream/catalog",
	},

	"internal/budget":   nil,
	"internal/house":    nil,
	"internal/lazymem":  nil,
	"internal/nearest":  nil,
	"internal/parallel": nil,
	"internal/ledger":   nil,

	"internal/poison":     nil,
	"internal/quarantine": {"vfs"},
}

// leaves are small things that know nothing of the house and that any package may use.
var leaves = []string{
	"internal/budget", "internal/lazymem", "internal/nearest", "internal/parallel", "internal/poison", "internal/quarantine",
}

// allowedModules says, for each package promised to library users, which third-party modules it may reach, by any
// number of steps. What is not a row may reach any module of go.mod.
var allowedModules = map[string][]string{
	"batch":    {"github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "golang.org/x/sys"},
	"kafkalog": {"github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "golang.org/x/sys"},
	"vfs":      {"golang.org/x/sys"},
}

func TestEveryImportIsInTheTable(t *testing.T) {
	for _, p := range listPackages(t) {
		allowed, listed := allowedImports[p.room()]
		if !listed {
			t.Errorf("package %q is not in the table of allowed imports", p.room())
			continue
		}
		for _, imported := range p.ours() {
			if !slices.Contains(allowed, imported) && !slices.Contains(leaves, imported) {
				t.Errorf("%s imports %s, which its row does not allow (%v)", p.room(), imported, allowed)
			}
		}
	}
}

func TestEveryRowOfTheTableIsAPackage(t *testing.T) {
	var rooms []string
	for _, p := range listPackages(t) {
		rooms = append(rooms, p.room())
	}
	for room := range allowedImports {
		require.Contains(t, rooms, room)
	}
}

func TestOnlyTheNodeImportsObserveAndMetadataDrivers(t *testing.T) {
	guarded := []string{"observe", "meta/embedded", "meta/etcd"}
	for _, p := range listPackages(t) {
		if p.room() == "node" {
			continue
		}
		for _, room := range guarded {
			require.NotContains(t, p.ours(), room, p.room())
		}
	}
}

func TestPublicPackagesReachOnlyTheirModules(t *testing.T) {
	for _, p := range listPackages(t) {
		modules, promised := allowedModules[p.room()]
		if !promised {
			continue
		}
		for _, dep := range p.Deps {
			if isStandard(dep) || strings.HasPrefix(dep, module+"/") {
				continue
			}
			within := func(m string) bool { return dep == m || strings.HasPrefix(dep, m+"/") }
			require.True(t, slices.ContainsFunc(modules, within), "%s reaches %s", p.room(), dep)
		}
	}
}

// isStandard reports whether an import path is the standard library's: its first element has no dot.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
