// Package faultfs wraps a file system and makes chosen calls fail, write only a part, or wait.
//
// Every call of the wrapped [vfs.FS] and of its open files is an [Op] with an index, counted from 0. An [Injector] sees
// it before it happens and answers with a [Fault]. The scenario that fails call 0, then call 1 and so on until it
// passes is the test of what a room does when its disk fails:
//
//	for n := 0; ; n++ {
//		disk := faultfs.New(memfs.New(), faultfs.FailNth(n, syscall.EIO))
//		err := scenario(disk)
//		if disk.Calls() <= n {
//			break // the scenario ended before call n
//		}
//		// compare err and what is left with what the room promises
//	}
//
// [FS.Trace] records the calls as text, for goldens of what an operation asks of the disk.
package faultfs
