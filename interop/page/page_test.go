// Package page looks at the status page of a server with a real browser.
package page

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"image/png"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/admin"
	"github.com/tidemark-io/tidemark/interop/server"
)

// browserLimit is what a browser may take when something is wrong.
const browserLimit = 2 * time.Minute

// browse runs Chromium with a clock of its own: five seconds of the page's time pass as fast as the page allows. It returns
// what the browser printed, and what it complained about.
func browse(t *testing.T, url string, flags ...string) (out, complaints string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	defer cancel()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=5000",
		"--user-data-dir=" + t.TempDir(),
	}, flags...)
	browser := exec.CommandContext(ctx, "chromium", append(args, url)...)
	var printed, logged bytes.Buffer
	browser.Stdout, browser.Stderr = &printed, &logged
	require.NoError(t, browser.Run(), "%s", logged.String())
	for line := range strings.Lines(logged.String()) {
		if strings.Contains(line, "CONSOLE") { // what the page's console shows: errors, and what the policy forbade
			complaints += line
		}
	}
	return printed.String(), complaints
}

var tags = regexp.MustCompile(`<[^>]*>`)

// cells returns the texts of the rows of a table's body.
func cells(t *testing.T, dom, id string) (rows [][]string) {
	t.Helper()
	body := regexp.MustCompile(`(?s)<tbody id="` + id + `">(.*?)</tbody>`).FindStringSubmatch(dom)
	require.NotNil(t, body, dom)
	for _, row := range regexp.MustCompile(`(?s)<tr>(.*?)</tr>`).FindAllStringSubmatch(body[1], -1) {
		var texts []string
		for _, cell := range regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`).FindAllStringSubmatch(row[1], -1) {
			texts = append(texts, text(cell[1]))
		}
		rows = append(rows, texts)
	}
	return rows
}

// inside returns the text of the element with an id.
func inside(t *testing.T, dom, id string) string {
	t.Helper()
	found := regexp.MustCompile(`(?s)<(\w+)[^>]*\bid="` + id + `"[^>]*>(.*?)</(?:span|p|ul|dl)>`).FindStringSubmatch(dom)
	require.NotNil(t, found, "%s in %s", id, dom)
	return text(found[2])
}

func text(markup string) string { return html.UnescapeString(tags.ReplaceAllString(markup, "")) }

// scripted is a node to whom two seconds pass between any two questions.
type scripted struct {
	asked atomic.Int64
	ready admin.Readiness
	more  int // topics beyond the first
}

func (s *scripted) Health() error              { return nil }
func (s *scripted) Readiness() admin.Readiness { return s.ready }

func (s *scripted) Overview() admin.Overview {
	n := s.asked.Add(1)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := admin.Overview{
		Version: "v1.2.3", Cluster: "c", Node: 1, Healthy: true, Readiness: s.ready,
		Started: began, Now: began.Add(26 * time.Hour).Add(time.Duration(n) * 2 * time.Second),
		Listeners: []admin.Listener{{Name: "kafka", Address: "0.0.0.0:9092", Advertised: "broker:9092"}},
		Topics: []admin.Topic{{
			Name: "orders", Partitions: 3, Offline: 1, Records: 1234567, Bytes: 3 << 20, WrittenRecords: 100 * n, WrittenBytes: 4096 * n,
		}},
		Groups: []admin.Group{{Name: "<b>billing</b>", State: "Stable", Members: 2, Lag: 7000, MaxLag: 4000}},
		Disk:   admin.Disk{Free: 1 << 30, Total: 4 << 30},
	}
	for i := range s.more {
		o.Topics = append(o.Topics, admin.Topic{Name: fmt.Sprintf("topic-%03d", i), Partitions: 1})
	}
	return o
}

// serve answers as the node would, until the test ends, and returns the page's address.
func serve(t *testing.T, s admin.Status) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	side := admin.New(admin.Options{Status: s})
	served := make(chan error, 1)
	go func() { served <- side.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, side.Shutdown(context.Background()))
		require.NoError(t, <-served)
	})
	return "http://" + l.Addr().String() + "/"
}

func TestThePageShowsWhatTheServerSaysAndRefreshesItself(t *testing.T) {
	s := &scripted{ready: admin.Readiness{Ready: true, Phase: "serving", Node: 1}, more: 250}
	dom, complaints := browse(t, serve(t, s), "--dump-dom")
	require.Empty(t, complaints)
	require.GreaterOrEqual(t, s.asked.Load(), int64(2))
	require.Equal(t, "serving", inside(t, dom, "state"))
	require.Equal(t, "v1.2.3", inside(t, dom, "version"))
	require.Contains(t, inside(t, dom, "facts"), "Up for1 d 2 h")
	require.Contains(t, inside(t, dom, "facts"), "Disk free1 GiB of 4 GiB")
	require.Equal(t, [][]string{{"kafka", "0.0.0.0:9092", "broker:9092"}}, cells(t, dom, "listeners"))
	topics := cells(t, dom, "topics")
	require.Len(t, topics, 200)
	require.Equal(t, []string{"orders", "3 (1 offline)", "1,234,567", "3 MiB", "50", "2 KiB"}, topics[0])
	require.Equal(t, []string{"topic-000", "1", "0", "0 B", "0", "0 B"}, topics[1])
	require.Equal(t, "51 more: filter by name to see them.", inside(t, dom, "more"))
	require.Equal(t, [][]string{{"<b>billing</b>", "Stable", "2", "7,000", "4,000"}}, cells(t, dom, "groups"), "a name is text")
}

func TestThePageSaysWhatIsWrong(t *testing.T) {
	starting := admin.Readiness{Phase: "opening partitions", Done: 17, Total: 1000, Opening: []string{"orders-7"}}
	dom, complaints := browse(t, serve(t, &scripted{ready: starting}), "--dump-dom")
	require.Empty(t, complaints)
	require.Equal(t, "opening partitions: 17 of 1,000", inside(t, dom, "state"))
	require.Equal(t, "Being opened now: orders-7", inside(t, dom, "notes"))

	trouble := admin.Readiness{Ready: true, Phase: "serving", Failed: []string{"orders-1"}, Warnings: []string{"producers are refused: the disk is nearly full"}}
	dom, _ = browse(t, serve(t, &scripted{ready: trouble}), "--dump-dom")
	require.Equal(t, "serving, with problems", inside(t, dom, "state"))
	require.Equal(t, "producers are refused: the disk is nearly fullThese partitions accept no records: orders-1", inside(t, dom, "notes"))
}

func TestThePageOfARealServerIsReadableInLightAndDark(t *testing.T) {
	in, err := server.Located()
	require.NoError(t, err)
	dir := t.TempDir()
	binary, err := server.BuildTidemark(in, dir)
	require.NoError(t, err)
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o750))
	s, err := server.NewTidemark(server.TidemarkOptions{Dir: data, Binary: binary})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	defer cancel()
	require.NoError(t, s.Start(ctx))
	defer func() { require.NoError(t, s.Stop(context.Background())) }()
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(s.Output())

	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()))
	require.NoError(t, err)
	defer c.Close()
	_, err = kadm.NewClient(c).CreateTopic(ctx, 2, 1, nil, "orders")
	require.NoError(t, err)
	for range 10 {
		require.NoError(t, c.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr())
	}
	dom, complaints := browse(t, url, "--dump-dom")
	require.Empty(t, complaints)
	require.Equal(t, "serving", inside(t, dom, "state"))
	topics := cells(t, dom, "topics")
	require.Len(t, topics, 1)
	require.Equal(t, []string{"orders", "2", "10"}, topics[0][:3])
	require.Equal(t, s.Addr(), cells(t, dom, "listeners")[1][2])

	light := brightness(t, url, "--window-size=1200,900")
	dark := brightness(t, url, "--window-size=1200,900", "--force-dark-mode")
	require.Greater(t, light, 0.8)
	require.Less(t, dark, 0.3)
}

// brightness takes a picture of a page and returns how bright it is, from 0 to 1. SCREENSHOTS names a directory to keep
// the pictures in.
func brightness(t *testing.T, url string, flags ...string) float64 {
	t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	picture := filepath.Join(dir, fmt.Sprintf("page-%d.png", len(flags)))
	_, complaints := browse(t, url, append(flags, "--screenshot="+picture)...)
	require.Empty(t, complaints)
	file, err := os.Open(picture)
	require.NoError(t, err)
	defer file.Close()
	image, err := png.Decode(file)
	require.NoError(t, err)
	var sum, count float64
	for x := image.Bounds().Min.X; x < image.Bounds().Max.X; x += 4 {
		for y := image.Bounds().Min.Y; y < image.Bounds().Max.Y; y += 4 {
			r, g, b, _ := image.At(x, y).RGBA()
			sum += float64(r+g+b) / (3 * 0xffff)
			count++
		}
	}
	return sum / count
}
