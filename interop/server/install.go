package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Install locates the peers that setup.sh installed.
type Install struct {
	cache  string
	module string // the directory of this module
}

// Located returns the locations of the peers, installed or not. It is enough for tidemark alone.
func Located() (Install, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return Install{}, fmt.Errorf("server: the place of the sources is not known")
	}
	in := Install{module: filepath.Dir(filepath.Dir(file))}
	if in.cache = os.Getenv("INTEROP_CACHE"); in.cache == "" {
		in.cache = filepath.Join(in.module, ".cache")
	}
	return in, nil
}

// Installed returns the installed peers. It fails, naming the command to run, if they are missing: a missing peer is
// never a reason to skip.
func Installed() (Install, error) {
	in, err := Located()
	if err != nil {
		return Install{}, err
	}
	return in, in.check()
}

// check returns an error unless all peers are installed.
func (in Install) check() error {
	setup := filepath.Join(in.module, "setup.sh")
	for _, peer := range []string{
		"kafka", "java-clients", "venv", "venv-older", "kafkajs", "kafkajs-older", "older", "seaweedfs",
	} {
		if _, err := os.Stat(filepath.Join(in.cache, peer+".stamp")); err != nil {
			return fmt.Errorf("server: the peers are not installed, run %s: %w", setup, err)
		}
	}
	if _, err := exec.LookPath("kcat"); err != nil {
		return fmt.Errorf("server: kcat is not installed, run %s: %w", setup, err)
	}
	return nil
}

// Java returns a command that runs a main class of Apache Kafka or of its tools in a small JVM.
func (in Install) Java(class string, args ...string) *exec.Cmd {
	return in.java(smallJVM, class, args)
}

func (in Install) java(jvm []string, class string, args []string) *exec.Cmd {
	return exec.Command("java", slices.Concat(jvm, []string{"-cp", filepath.Join(in.cache, "kafka", "*"), class}, args)...)
}

// smallJVM is for programs that come and go.
var smallJVM = []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}

// JavaClients returns the versions of Kafka's Java client that are installed separately, in the order of
// kafka/clients.txt: oldest first.
func (in Install) JavaClients() ([]string, error) {
	versions, err := os.ReadFile(filepath.Join(in.module, "kafka", "clients.txt"))
	return strings.Fields(string(versions)), err
}

// JavaClient returns a command that runs a class of a directory with one version of Kafka's Java client, or with that of
// the broker and the tools if the version is empty.
func (in Install) JavaClient(version, classes, class string, args ...string) *exec.Cmd {
	path := classes + string(filepath.ListSeparator) + in.javaClient(version)
	return exec.Command("java", slices.Concat(smallJVM, []string{"-cp", path, class}, args)...)
}

// CompileJava compiles one of the files in peers/ into a directory, against one version of Kafka's Java client.
func (in Install) CompileJava(version, file, dir string) error {
	out, err := exec.Command("javac", "-cp", in.javaClient(version), "-d", dir, filepath.Join(in.module, "peers", file)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("server: %s with the Java client %s: %w\n%s", file, version, err, out)
	}
	return nil
}

func (in Install) javaClient(version string) string {
	if version == "" {
		return filepath.Join(in.cache, "kafka", "*")
	}
	return filepath.Join(in.cache, "java-clients", version, "*")
}

// Python returns a command that runs one of the scripts in peers/ with the clients from PyPI.
func (in Install) Python(script string, args ...string) *exec.Cmd {
	return in.python("venv", script, args)
}

// OlderPython is [Install.Python] with older clients.
func (in Install) OlderPython(script string, args ...string) *exec.Cmd {
	return in.python("venv-older", script, args)
}

func (in Install) python(venv, script string, args []string) *exec.Cmd {
	return exec.Command(filepath.Join(in.cache, venv, "bin", "python"),
		append([]string{filepath.Join(in.module, "peers", script)}, args...)...)
}

// Node returns a command that runs one of the scripts in peers/ with kafkajs.
func (in Install) Node(script string, args ...string) *exec.Cmd {
	return in.node("kafkajs", script, args)
}

// OlderNode is [Install.Node] with an older kafkajs.
func (in Install) OlderNode(script string, args ...string) *exec.Cmd {
	return in.node("kafkajs-older", script, args)
}

func (in Install) node(packages, script string, args []string) *exec.Cmd {
	command := exec.Command("node", append([]string{filepath.Join(in.module, "peers", script)}, args...)...)
	command.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(in.cache, packages, "node_modules"))
	return command
}

// OlderGo returns a command that runs one of the older clients for Go; see interop/older.
func (in Install) OlderGo(client string, args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(in.cache, "older", "older"), append([]string{client}, args...)...)
}

// Root returns the directory of the tree around this module.
func (in Install) Root() string { return filepath.Dir(in.module) }
