package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pureRooms take the clock and the files as arguments, so that tests can crash them and turn their time.
var pureRooms = []string{"kafkalog", "batch", "meta", "coordinator", "coordinator/records"}

// clockDefaults are the places where such a room falls back to the real clock when it is given none.
var clockDefaults = map[string][]string{
	"kafkalog/env.go":  {"time.Now"},
	"meta/log.go":      {"time.Now"},
	"meta/member.go":   {"time.NewTicker"}, // how often a member looks after its place and the cluster
	"meta/proposer.go": {"time.NewTimer"},  // how long to wait before a lost backend is tried again
	"meta/lease.go":    {"time.NewTimer"},  // for how long the lease is left to others
}

func TestPureRoomsCallNeitherTheClockNorTheOperatingSystem(t *testing.T) {
	banned := map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"},
		"os":   {"*"},
	}
	for _, room := range pureRooms {
		for name, file := range parseRoom(t, room, false) {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, ok := call.X.(*ast.Ident)
				if !ok || pkg.Obj != nil {
					return true
				}
				for _, b := range banned[pkg.Name] {
					used := pkg.Name + "." + call.Sel.Name
					if (b == "*" || b == call.Sel.Name) && !slices.Contains(clockDefaults[name], used) {
						t.Errorf("%s uses %s", name, used)
					}
				}
				return true
			})
		}
	}
}

func TestNoTestSleepsOrSkips(t *testing.T) {
	for room := range allowedImports {
		for name, file := range parseRoom(t, room, true) {
			if !strings.HasSuffix(name, "_test.go") || room == "internal/house" {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, _ := call.X.(*ast.Ident)
				if x == nil {
					return true
				}
				if x.Name == "time" && call.Sel.Name == "Sleep" {
					t.Errorf("%s sleeps: wait for the event instead", name)
				}
				if x.Name == "t" && (call.Sel.Name == "Skip" || call.Sel.Name == "Skipf") {
					t.Errorf("%s skips: a test that may not run proves nothing", name)
				}
				return true
			})
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	for room := range allowedImports {
		documented := false
		for _, file := range parseRoom(t, room, false) {
			documented = documented || file.Doc != nil
		}
		require.True(t, documented, "package %s has no doc comment attached to a package clause", room)
	}
}

func TestEveryExportedNameHasADoc(t *testing.T) {
	for room := range allowedImports {
		for name, file := range parseRoom(t, room, false) {
			for _, missing := range undocumented(file) {
				t.Errorf("%s: %s has no doc comment", name, missing)
			}
		}
	}
}

// undocumented lists the exported top-level names and methods of a file that carry no comment. A name in a group is
// documented by the group's comment.
func undocumented(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && receiverIsExported(d) {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			names = append(names, undocumentedSpecs(d)...)
		}
	}
	return names
}

func undocumentedSpecs(d *ast.GenDecl) []string {
	var names []string
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
				names = append(names, s.Name.Name)
			}
		case *ast.ValueSpec:
			if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				names = append(names, s.Names[0].Name)
			}
		}
	}
	return names
}

// receiverIsExported is true for functions and for methods of exported types; String and Error document themselves.
func receiverIsExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	if d.Name.Name == "String" || d.Name.Name == "Error" || d.Name.Name == "Unwrap" {
		return false
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// parseRoom parses the Go files of one package directory, with or without its tests.
func parseRoom(t *testing.T, room string, tests bool) map[string]*ast.File {
	t.Helper()
	dir := filepath.Join("..", "..", filepath.FromSlash(room))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]*ast.File{}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || (!tests && strings.HasSuffix(name, "_test.go")) {
			continue
		}
		path := filepath.Join(dir, name)
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		files[room+"/"+name] = file
	}
	return files
}
