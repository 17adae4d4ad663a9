package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Volume is a separate file system that can be filled: a tmpfs, which only an administrator of Linux can mount.
type Volume struct{ Dir string }

// volumeSize is the capacity of a volume that is not full. No memory is reserved for it.
const volumeSize = "4g"

// MountVolume mounts a volume on dir. The error states why that is impossible on this machine.
func MountVolume(ctx context.Context, dir string) (*Volume, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the database runs as another user
		return nil, err
	}
	if err := run(ctx, "mount", "-t", "tmpfs", "-o", "mode=1777,size="+volumeSize, "tmpfs", dir); err != nil {
		return nil, err
	}
	return &Volume{dir}, nil
}

// Fill shrinks the volume to almost its used size. Concurrent writes can make the new size too small; then it retries
// with a larger one.
func (v *Volume) Fill(ctx context.Context) (err error) {
	for range 100 {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(v.Dir, &fs); err != nil {
			return err
		}
		used := (fs.Blocks - fs.Bfree) * uint64(fs.Bsize)
		if err = run(ctx, "mount", "-o", fmt.Sprintf("remount,size=%d", used+freeBytes), v.Dir); err == nil {
			return nil
		}
	}
	return err
}

// freeBytes remain after Fill: a few commits use them up.
const freeBytes = 32 << 10

// Free makes room again.
func (v *Volume) Free(ctx context.Context) error {
	return run(ctx, "mount", "-o", "remount,size="+volumeSize, v.Dir)
}

// Unmount removes the volume with its contents.
func (v *Volume) Unmount(ctx context.Context) error { return run(ctx, "umount", v.Dir) }

func run(ctx context.Context, program string, args ...string) error {
	if said, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil { //nolint:gosec // our own arguments
		return fmt.Errorf("%s: %w: %s", program, err, said)
	}
	return nil
}
