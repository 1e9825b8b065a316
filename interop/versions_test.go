package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/interop/server"
)

// versionsClient is the client id of the tests of versions.
const versionsClient = "golden"

// oldestOfKafka is where Kafka 4.4.0 begins with those requests of which tidemark serves, or lists, older versions. Kafka's
// classes do not know these.
var oldestOfKafka = map[int16]int16{0: 3, 2: 1, 8: 2, 19: 2, 20: 1}

// wire is a connection on which requests are sent as bytes.
type wire struct {
	t    *testing.T
	conn net.Conn
	last int32 // correlation id
}

func dialWire(t *testing.T, addr string) *wire {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(limited(t, time.Minute), "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { conn.Close() })
	return &wire{t: t, conn: conn}
}

// exchangeFrames sends a request and returns its frame and the response's, without their sizes.
func (w *wire) exchangeFrames(req kmsg.Request) (request, response []byte) {
	w.t.Helper()
	w.last++
	request = kmsg.NewRequestFormatter(kmsg.FormatterClientID(versionsClient)).AppendRequest(nil, req, w.last)
	_, err := w.conn.Write(request)
	require.NoError(w.t, err)
	return request[4:], w.readFrame(req)
}

func (w *wire) readFrame(req kmsg.Request) []byte {
	w.t.Helper()
	var size [4]byte
	_, err := io.ReadFull(w.conn, size[:])
	require.NoError(w.t, err, "%s %d is not answered", kmsg.NameForKey(req.Key()), req.GetVersion())
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(w.conn, frame)
	require.NoError(w.t, err)
	return frame
}

// ask sends a request that is not recorded.
func (w *wire) ask(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	_, frame := w.exchangeFrames(req)
	resp := req.ResponseKind()
	require.NoError(w.t, resp.ReadFrom(frame[headerBytes(resp):]))
	return resp
}

func headerBytes(resp kmsg.Response) int {
	if resp.IsFlexible() && resp.Key() != 18 {
		return 5
	}
	return 4
}

// spoken is one request and its response.
type spoken struct {
	key, version      int16
	request, response []byte
}

// recorder sends requests and keeps what was said.
type recorder struct {
	*wire
	spoken []spoken
}

// say sends a request in a version and returns the response.
func (r *recorder) say(version int16, req kmsg.Request) kmsg.Response {
	r.t.Helper()
	req.SetVersion(version)
	request, response := r.exchangeFrames(req)
	r.spoken = append(r.spoken, spoken{req.Key(), version, request, response})
	resp := req.ResponseKind()
	require.NoError(r.t, resp.ReadFrom(response[headerBytes(resp):]))
	return resp
}

// advertised returns the versions of every request that the server lists and that Kafka has too.
func (w *wire) advertised() map[int16][2]int16 {
	w.t.Helper()
	versions := map[int16][2]int16{}
	for _, k := range w.ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse).ApiKeys {
		versions[k.ApiKey] = [2]int16{max(k.MinVersion, oldestOfKafka[k.ApiKey]), k.MaxVersion}
	}
	return versions
}

// TestF63_EveryVersionOfEveryRequestMeansWhatKafkasSchemasSay asks for the same things in every version that the server lists.
// Requests and responses are read by Kafka's own message classes: they are whole messages, in the bytes that Kafka itself
// would write, and say what Kafka's broker says to the same requests.
func TestF63_EveryVersionOfEveryRequestMeansWhatKafkasSchemasSay(t *testing.T) {
	ctx := limited(t, 3*time.Minute)
	s, err := shared.maker.New(t.TempDir(), "--group.initial.rebalance.delay.ms=0s")
	require.NoError(t, err)
	require.NoError(t, s.Start(ctx))
	defer s.Kill()
	r := &recorder{wire: dialWire(t, s.Addr())}
	said := goldenConversation(r)
	for key, versions := range r.advertised() {
		if shared.maker.IsTidemark() {
			require.Equal(t, versions, said[key], "%s: every version that is listed", kmsg.NameForKey(key))
		}
	}
	texts := readBySchemas(t, ctx, r.spoken)
	names := r.namesOfIDs()
	files := map[string]*strings.Builder{}
	for i, one := range r.spoken {
		file := fmt.Sprintf("versions/%02d-%s.txt", one.key, kmsg.NameForKey(one.key))
		if files[file] == nil {
			files[file] = &strings.Builder{}
		}
		fmt.Fprintf(files[file], "%d > %s\n%d < %s\n", one.version, canonical(texts[2*i], names),
			one.version, essence(t, canonical(texts[2*i+1], names)))
	}
	for file, text := range files {
		t.Run(file, func(t *testing.T) { compareWithKafkas(t, file, text.String()) })
	}
	require.NoError(t, s.Stop(ctx))
}

// readBySchemas returns the JSON of the requests and responses, in turn.
func readBySchemas(t *testing.T, ctx context.Context, all []spoken) []string {
	t.Helper()
	var frames bytes.Buffer
	for _, one := range all {
		fmt.Fprintf(&frames, "%s %s\n", hex.EncodeToString(one.request), hex.EncodeToString(one.response))
	}
	command := shared.install.Java(filepath.Join("peers", "Schemas.java"))
	command.Stdin = &frames
	out, errs, err := bounded(t, command, 3*time.Minute)
	require.NoError(t, err, "%.6000s", errs)
	var texts []string
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		texts = append(texts, lines.Text())
	}
	require.Len(t, texts, 2*len(all))
	return texts
}

// namesOfIDs returns, for the texts of ids that are made anew each time, what stands for them.
func (r *recorder) namesOfIDs() *strings.Replacer {
	r.t.Helper()
	var replacements []string
	for _, one := range r.spoken {
		if one.key != 19 || one.version < 7 {
			continue
		}
		resp := kmsg.NewPtrCreateTopicsResponse()
		resp.SetVersion(one.version)
		require.NoError(r.t, resp.ReadFrom(one.response[5:]))
		for _, t := range resp.Topics {
			if t.ErrorCode != 0 {
				continue // it has no id
			}
			replacements = append(replacements, uuidText(t.TopicID), "id-of-"+t.Topic)
		}
	}
	for _, t := range r.ask(metadata(13)).(*kmsg.MetadataResponse).Topics {
		replacements = append(replacements, uuidText(t.TopicID), "id-of-"+*t.Topic)
	}
	return strings.NewReplacer(replacements...)
}

var madeAnew = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(versionsClient + `-[0-9a-f-]{36}`), "MEMBER"},
	{regexp.MustCompile(`"clusterId":"[^"]+"`), `"clusterId":"CLUSTER"`},
	{regexp.MustCompile(`"port":\d+`), `"port":"PORT"`},
	{regexp.MustCompile(`"host":"[^"]+"`), `"host":"HOST"`},
	{regexp.MustCompile(`"logDir":"[^"]+"`), `"logDir":"DIR"`},
	{regexp.MustCompile(`"(totalBytes|usableBytes)":\d+`), `"$1":"N"`},
	{regexp.MustCompile(`"producerId":[1-9]\d*,"producerEpoch":0`), `"producerId":"N","producerEpoch":0`},
	{regexp.MustCompile(`"producerId":0,"producerEpoch":0`), `"producerId":"N","producerEpoch":0`},
}

// canonical is a text without what is made anew each time.
func canonical(text string, names *strings.Replacer) string {
	text = names.Replace(text)
	for _, r := range madeAnew {
		text = r.is.ReplaceAllString(text, r.as)
	}
	return text
}

// essence is an answer without what servers need not have in common: the order of what is answered, words for people, which
// requests and features there are, and all settings of topics but one.
func essence(t *testing.T, answer string) string {
	t.Helper()
	var v any
	numbers := json.NewDecoder(strings.NewReader(answer))
	numbers.UseNumber()
	require.NoError(t, numbers.Decode(&v))
	data, err := json.Marshal(essential(v))
	require.NoError(t, err)
	return string(data)
}

func essential(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range []string{"errorMessage", "apiKeys", "supportedFeatures", "finalizedFeatures", "finalizedFeaturesEpoch"} {
			delete(v, field)
		}
		for name, field := range v {
			v[name] = essential(field)
		}
	case []any:
		v = slices.DeleteFunc(v, func(one any) bool {
			config, ok := one.(map[string]any)
			return ok && config["configSource"] != nil && config["name"] != "retention.ms"
		})
		texts := make(map[string]any)
		for _, one := range v {
			text, _ := json.Marshal(essential(one)) // it came from JSON
			texts[string(text)] = one
		}
		if len(texts) == len(v) {
			v = v[:0]
			for _, text := range slices.Sorted(maps.Keys(texts)) {
				v = append(v, texts[text])
			}
		}
		return v
	}
	return v
}

// TestF63_AVersionThatIsNotThereClosesTheConnectionAndIsLoggedOnce sends every request in the version above the highest that is
// listed, and in the one below the lowest. ApiVersions alone is answered: see TestF73_ApiVersionsOfAnUnknownVersionIsAnsweredInVersion0
// of the broker.
func TestF63_AVersionThatIsNotThereClosesTheConnectionAndIsLoggedOnce(t *testing.T) {
	if !shared.maker.IsTidemark() {
		return // Kafka's log has other words
	}
	ctx := limited(t, time.Minute)
	s, err := shared.maker.New(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Start(ctx))
	defer s.Kill()
	listed := dialWire(t, s.Addr()).ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse).ApiKeys
	listed = slices.DeleteFunc(listed, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == 18 })
	for _, k := range listed {
		requireRefused(t, s, k.ApiKey, k.MaxVersion+1)
		if k.MinVersion > 0 {
			requireRefused(t, s, k.ApiKey, k.MinVersion-1)
		}
	}
	require.NoError(t, s.Stop(ctx))
	for _, k := range listed {
		said := linesAbout(s.Output(), fmt.Sprintf("client=%s-%d-%d", versionsClient, k.ApiKey, k.MaxVersion+1))
		require.Len(t, said, 1, "%s %d", kmsg.NameForKey(k.ApiKey), k.MaxVersion+1)
		require.Contains(t, strings.ToLower(said[0]), "api="+strings.ToLower(kmsg.NameForKey(k.ApiKey)))
		require.Contains(t, said[0], fmt.Sprintf("version=%d", k.MaxVersion+1))
	}
}

// requireRefused sends a request whose client id says which it is.
func requireRefused(t *testing.T, s *server.Server, key, version int16) {
	t.Helper()
	w := dialWire(t, s.Addr())
	id := fmt.Sprintf("%s-%d-%d", versionsClient, key, version)
	frame := binary.BigEndian.AppendUint16(nil, uint16(key))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = binary.BigEndian.AppendUint32(frame, 7)
	frame = append(binary.BigEndian.AppendUint16(frame, uint16(len(id))), id...)
	frame = append(frame, 0, 1, 2, 3) // a body that no schema has
	_, err := w.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	require.NoError(t, err)
	answer, err := io.ReadAll(io.LimitReader(w.conn, 1<<10))
	require.NoError(t, err)
	require.Empty(t, answer, "%s %d is answered", kmsg.NameForKey(key), version)
}

func linesAbout(log, what string) []string {
	var lines []string
	for _, line := range strings.Split(log, "\n") {
		if strings.Contains(line, what+" ") || strings.HasSuffix(line, what) {
			lines = append(lines, line)
		}
	}
	return lines
}
