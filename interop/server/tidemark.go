package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// TidemarkOptions configures a tidemark server.
type TidemarkOptions struct {
	// Dir holds the data. It must exist.
	Dir string
	// Binary is the program; see [BuildTidemark].
	Binary string
	// Args are flags of `tidemark serve` beyond the data directory and the listeners.
	Args []string
	// OpenFiles is how many descriptors the process may have; 0 leaves what it inherits.
	OpenFiles int
}

// BuildTidemark builds the program of the tree around this module into dir and returns its path.
func BuildTidemark(in Install, dir string) (string, error) {
	binary := filepath.Join(dir, "tidemark")
	build := exec.Command("go", "build", "-o", binary, "./cmd/tidemark")
	build.Dir = in.Root()
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("tidemark: build: %w\n%s", err, out)
	}
	return binary, nil
}

// NewTidemark prepares a tidemark server. It does not start it.
func NewTidemark(o TidemarkOptions) (*Server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, fmt.Errorf("tidemark: %w", err)
	}
	web, err := freeAddr()
	if err != nil {
		return nil, fmt.Errorf("tidemark: %w", err)
	}
	// The ports are chosen here, not by the server, so that a restart uses the same addresses.
	args := append([]string{"serve", "--data-dir", o.Dir, "--kafka-listen", addr, "--http-listen", web}, o.Args...)
	return &Server{
		name: "tidemark", addr: addr, http: web, dataDir: o.Dir, ask: namesItself(addr),
		command: func() *exec.Cmd {
			command := exec.Command(o.Binary, args...)
			if o.OpenFiles > 0 {
				script := fmt.Sprintf(`ulimit -n %d && exec "$@"`, o.OpenFiles)
				command = exec.Command("sh", append([]string{"-c", script, "sh", o.Binary}, args...)...)
			}
			command.Env = withoutSettings(os.Environ())
			return command
		},
	}, nil
}

// withoutSettings drops the environment variables of tidemark's configuration, so that a developer's own settings do not
// change what is tested.
func withoutSettings(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
}
