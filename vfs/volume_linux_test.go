package vfs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSyncfsIsTrustedFromKernel58On(t *testing.T) {
	for release, want := range map[string]bool{
		"4.19.0-27-amd64": false, "5.4.0": false, "5.7.19": false, "5.8": true, "5.10.0-rc1+": true, "6.1.0": true, "10.0": true,
		"": false, "unknown": false,
	} {
		require.Equal(t, want, reportsSyncfs(release), release)
	}
}

func TestAVolumeDoesNotHoldWhatIsOnAnotherFileSystem(t *testing.T) {
	v, err := osFS{}.OpenVolume(t.TempDir())
	require.NoError(t, err)
	defer v.Close()
	holds, err := v.Holds("/proc/self")
	require.NoError(t, err)
	require.False(t, holds)
	_, err = osFS{}.OpenVolume("/proc/self")
	require.ErrorContains(t, err, "0x9fa0")
}
