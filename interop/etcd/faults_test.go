package etcd_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/etcd"
)

func TestF44_ANodeWhoseWatchFellBehindEtcdsHistoryCatchesUp(t *testing.T) {
	c := startCluster(t, 1, nil)
	network := &cable{}
	config := c.config("history")
	config.DialOptions = network.options()
	behind := openLog(t, config, meta.Options{Node: 1, SnapshotEvery: 1 << 60})
	writer := openLog(t, c.config("history"), meta.Options{Node: 2, SnapshotEvery: 5})
	network.cut()
	for i := range 40 { // snapshots, truncations and compactions of etcd's history go with it
		_, err := writer.Do(t.Context(), meta.PutKv{Key: fmt.Sprint("key-", i%7), Value: fmt.Append(nil, i)})
		require.NoError(t, err)
	}
	network.mend()
	s, err := behind.WaitApplied(t.Context(), 40)
	require.NoError(t, err)
	require.Equal(t, writer.View().EncodeSnapshot(), s.EncodeSnapshot())
}

func TestMP8_AClaimIsLostByTheHoldersOwnClockWhenEtcdIsAway(t *testing.T) {
	c := startCluster(t, 1, nil)
	network := &cable{}
	config := c.config("claims")
	config.DialOptions = network.options()
	b, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	claim, err := b.Claim(t.Context(), "live/1", []byte("me"))
	require.NoError(t, err)
	network.cut()
	cut := time.Now()
	<-claim.Lost()
	require.False(t, claim.Proved().After(cut), "nothing is proved over a cable that is cut")
	require.GreaterOrEqual(t, time.Since(claim.Proved()), config.TTL)
	require.NoError(t, b.Close())
}

func TestF40_AnAppendAtATruncatedIndexIsRefused(t *testing.T) {
	c := startCluster(t, 1, nil)
	l := openLog(t, c.config("truncated"), meta.Options{SnapshotEvery: 3})
	for range 12 {
		_, err := l.Do(t.Context(), meta.PutKv{Key: "k", Value: []byte("v")})
		require.NoError(t, err)
	}
	b, err := etcd.Open(t.Context(), c.config("truncated"))
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Read(t.Context(), 1, 1)
	require.ErrorIs(t, err, meta.ErrTruncated)
	entry, err := meta.Entry{Commands: []meta.Command{meta.DeleteKv{Key: "k"}}}.Encode()
	require.NoError(t, err)
	for _, index := range []uint64{1, 2, 12, 14} {
		require.ErrorIs(t, b.Append(t.Context(), index, entry), meta.ErrConflict)
	}
}

func TestAnEtcdWithoutSpaceRefusesAndGoesOnWhenThereIsSome(t *testing.T) {
	c := startCluster(t, 1, func(config *embed.Config) { config.QuotaBackendBytes = 8 << 20 })
	l := openLog(t, c.config("full"), meta.Options{SnapshotEvery: 1 << 60})
	value := make([]byte, 256<<10)
	var err error
	for i := 0; err == nil && i < 10_000; i++ { // etcd looks at the size of what it has committed, up to 100 ms ago
		_, err = l.Do(t.Context(), meta.PutKv{Key: "k", Value: value})
	}
	require.ErrorIs(t, err, meta.ErrNoSpace)
	require.ErrorContains(t, err, "disarm the alarm")
	admin := c.admin()
	got, err := admin.Get(t.Context(), "/tidemark/full/head")
	require.NoError(t, err)
	_, err = admin.Delete(t.Context(), "/tidemark/full/log/", clientv3.WithPrefix()) // as no operator should
	require.NoError(t, err)
	_, err = admin.Compact(t.Context(), got.Header.Revision+1, clientv3.WithCompactPhysical()) // or the defragmentation may find nothing yet
	require.NoError(t, err)
	_, err = admin.Defragment(t.Context(), c.endpoints()[0])
	require.NoError(t, err)
	_, err = admin.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	_, err = l.Do(t.Context(), meta.PutKv{Key: "k", Value: []byte("small")})
	require.NoError(t, err)
}

func TestAUserOfEtcdNeedsTheRightPassword(t *testing.T) {
	c := startCluster(t, 1, nil)
	admin := c.admin()
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { _, err := admin.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.UserAdd(ctx, "tidemark", "pass:word"); return err },
		func() error { _, err := admin.RoleAdd(ctx, "tidemark"); return err },
		func() error {
			_, err := admin.RoleGrantPermission(ctx, "tidemark", "/tidemark/auth/", clientv3.GetPrefixRangeEnd("/tidemark/auth/"),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := admin.UserGrantRole(ctx, "tidemark", "tidemark"); return err },
		func() error { _, err := admin.AuthEnable(ctx); return err },
	} {
		require.NoError(t, step())
	}
	open := func(name, user string) error {
		config, err := etcd.ParseURL("etcd://"+c.endpoints()[0]+"/"+name, etcd.Credentials{User: user})
		require.NoError(t, err)
		config.ClusterID = "c"
		b, err := etcd.Open(ctx, config)
		if err == nil {
			l, openErr := meta.Open(ctx, b, meta.Options{SnapshotEvery: 2})
			require.NoError(t, openErr)
			for range 9 { // with snapshots and truncation, though this user may not compact etcd's history
				_, err := l.Do(ctx, meta.PutKv{Key: "k", Value: []byte("v")})
				require.NoError(t, err)
			}
			require.NoError(t, l.Close())
			require.NoError(t, b.Close())
		}
		return err
	}
	require.NoError(t, open("auth", "tidemark:pass:word"))
	require.ErrorContains(t, open("auth", "tidemark:wrong"), "authentication failed")
	require.ErrorContains(t, open("other", "tidemark:pass:word"), "permission denied")
	require.ErrorContains(t, open("auth", ""), "user name is empty")
}

func TestEtcdOverTLS(t *testing.T) {
	var dir string
	c := startCluster(t, 1, func(config *embed.Config) {
		config.ClientAutoTLS, config.SelfSignedCertValidity = true, 1
		config.ListenClientUrls[0].Scheme = "https"
		config.AdvertiseClientUrls = config.ListenClientUrls
		dir = config.Dir
	})
	url := "etcd://" + c.endpoints()[0] + "/tls"
	config, err := etcd.ParseURL(url, etcd.Credentials{CACert: filepath.Join(dir, "fixtures", "client", "cert.pem")})
	require.NoError(t, err)
	config.ClusterID = "c"
	l := openLog(t, config, meta.Options{})
	_, err = l.Do(t.Context(), meta.PutKv{Key: "k", Value: []byte("v")})
	require.NoError(t, err)

	config, err = etcd.ParseURL("etcds"+url[len("etcd"):], etcd.Credentials{}) // nobody whom the system trusts
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = etcd.Open(short, config)
	require.ErrorIs(t, err, meta.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestARestoredLogIsThereForEveryNode(t *testing.T) {
	c := startCluster(t, 1, nil)
	s, _ := meta.Empty().Apply(41, meta.Entry{Commands: []meta.Command{meta.PutKv{Key: "k", Value: make([]byte, 400<<10)}}})
	config := c.config("restored")
	require.NoError(t, etcd.Restore(t.Context(), config, 41, s.EncodeSnapshot()))
	require.ErrorContains(t, etcd.Restore(t.Context(), config, 41, s.EncodeSnapshot()), "file already exists")
	l := openLog(t, config, meta.Options{SnapshotEvery: 2})
	require.Equal(t, s.EncodeSnapshot(), l.View().EncodeSnapshot())
	for range 6 {
		_, err := l.Do(t.Context(), meta.PutKv{Key: "l", Value: []byte("w")})
		require.NoError(t, err)
	}
	require.EqualValues(t, 47, openLog(t, config, meta.Options{}).View().Index())
}

func TestF41_TheOlderSnapshotInEtcdStandsInForADamagedOneIfAllEntriesSinceAreThere(t *testing.T) {
	c := startCluster(t, 1, nil)
	writer := openLog(t, c.config("damaged"), meta.Options{SnapshotEvery: 10})
	for i := range 25 {
		_, err := writer.Do(t.Context(), meta.PutKv{Key: fmt.Sprint("key-", i), Value: []byte("v")})
		require.NoError(t, err)
	}
	want := writer.View().EncodeSnapshot()
	require.NoError(t, writer.Close())
	admin := c.admin()
	parts, err := admin.Get(t.Context(), "/tidemark/damaged/snap/", clientv3.WithPrefix())
	require.NoError(t, err)
	newest := parts.Kvs[len(parts.Kvs)-2] // before snap/latest
	require.Contains(t, string(newest.Key), "/snap/00000000000000000020/")
	newest.Value[50] ^= 1
	_, err = admin.Put(t.Context(), string(newest.Key), string(newest.Value))
	require.NoError(t, err)

	b, err := etcd.Open(t.Context(), c.config("damaged"))
	require.NoError(t, err)
	defer b.Close()
	var fell []meta.FallbackEvent
	events := meta.Events{FellBack: func(e meta.FallbackEvent) { fell = append(fell, e) }}
	reader, err := meta.Open(t.Context(), b, meta.Options{SnapshotEvery: 1 << 60, Events: events})
	require.NoError(t, err)
	require.Equal(t, want, reader.View().EncodeSnapshot())
	require.NoError(t, reader.Close())
	require.Len(t, fell, 1)
	require.ErrorContains(t, fell[0].Err, "snapshot 20: ")
	fell[0].Err = nil
	require.Equal(t, []meta.FallbackEvent{{Damaged: 20, From: 10, Entries: 10}}, fell)

	_, err = admin.Delete(t.Context(), fmt.Sprintf("/tidemark/damaged/log/%020d", 14)) // as no operator should
	require.NoError(t, err)
	_, err = meta.Open(t.Context(), b, meta.Options{})
	var refused *meta.FallbackError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "snapshot 20: ")
	require.ErrorContains(t, err, "and the older snapshot, 10, cannot replace it: log entry 14 is missing")
}
