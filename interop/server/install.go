package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Install knows where setup.sh put the peers.
type Install struct {
	cache  string
	module string // the directory of this module
}

// Located returns where the peers are, installed or not. It is enough for tidemark alone.
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

// Installed returns the peers that setup.sh installed. It fails, naming the command to run, when they are not there: a
// missing peer is never a reason to skip.
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
	for _, stamp := range []string{"kafka.stamp", "venv.stamp", "kafkajs.stamp", "seaweedfs.stamp"} {
		if _, err := os.Stat(filepath.Join(in.cache, stamp)); err != nil {
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
	return in.java([]string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}, class, args)
}

func (in Install) java(jvm []string, class string, args []string) *exec.Cmd {
	all := append([]string{}, jvm...)
	all = append(all, "-cp", filepath.Join(in.cache, "kafka", "*"), class)
	return exec.Command("java", append(all, args...)...)
}

// Python returns a command that runs one of the scripts in peers/ with the clients from PyPI.
func (in Install) Python(script string, args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(in.cache, "venv", "bin", "python"),
		append([]string{filepath.Join(in.module, "peers", script)}, args...)...)
}

// Node returns a command that runs one of the scripts in peers/ with kafkajs.
func (in Install) Node(script string, args ...string) *exec.Cmd {
	command := exec.Command("node", append([]string{filepath.Join(in.module, "peers", script)}, args...)...)
	command.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(in.cache, "kafkajs", "node_modules"))
	return command
}

// Root returns the directory of the tree around this module.
func (in Install) Root() string { return filepath.Dir(in.module) }
