package faultfs

import (
	"errors"
	"io/fs"

	"github.com/tidemark-io/tidemark/vfs"
)

type volume struct {
	fs   *FS
	dir  string
	base vfs.Volume
}

// OpenVolume implements [vfs.VolumeOpener]. It is unsupported if the wrapped file system is not one.
func (f *FS) OpenVolume(dir string) (vfs.Volume, error) {
	base, ok := f.base.(vfs.VolumeOpener)
	if !ok {
		return nil, &fs.PathError{Op: "open volume", Path: dir, Err: errors.ErrUnsupported}
	}
	v := &volume{fs: f, dir: dir}
	err := f.do(Op{Kind: OpOpen, Name: dir}, func() (err error) {
		v.base, err = base.OpenVolume(dir)
		return err
	})
	if err != nil {
		if v.base != nil {
			v.base.Close()
		}
		return nil, err
	}
	return v, nil
}

func (v *volume) Holds(name string) (holds bool, err error) {
	err = v.fs.do(Op{Kind: OpStat, Name: name}, func() (err error) {
		holds, err = v.base.Holds(name)
		return err
	})
	return holds, err
}

func (v *volume) Sync() error { return v.fs.do(Op{Kind: OpSyncVolume, Name: v.dir}, v.base.Sync) }

// Close closes even when it is made to fail.
func (v *volume) Close() error {
	op, fault := v.fs.begin(Op{Kind: OpClose, Name: v.dir})
	err := errors.Join(injected(op, fault.Err), v.base.Close())
	v.fs.end(op, err)
	return err
}
