//go:build !unix

package config

import "io/fs"

// ownedByUser is not supported on this system.
func ownedByUser(fs.FileInfo) bool { return false }
