//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs tells whether a file is this user's.
func ownedByUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
