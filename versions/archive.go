package versions

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxEntryPath is the number of bytes of a path in an archive.
const maxEntryPath = 255

// unpack returns the regular files of an archive below a directory, in the order of their paths. It writes nothing to disk. An archive with a
// link, a device, a path outside of it, or the same path twice is refused as a whole. The error is an [*Error].
func unpack(packed []byte, limits Limits, host, below string) ([]File, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, newError(Invalid, host, "the archive is not compressed with gzip")
	}
	rest := &io.LimitedReader{R: unzipped, N: limits.Unpacked + 1}
	archive := tar.NewReader(rest)
	a := &unpacking{host: host, limits: limits, left: limits.Unpacked, seen: map[string]byte{}}
	if a.below, _ = entryPath(below); a.below == "." {
		a.below = ""
	}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = a.add(header, archive)
		} else {
			err = newError(Invalid, host, "the archive is damaged, or is not a tar archive")
		}
		if rest.N <= 0 { // what was read ends there, so another error is a consequence
			return nil, a.tooLarge()
		}
		if err != nil {
			return nil, err
		}
	}
	if rest.N <= 0 {
		return nil, a.tooLarge()
	}
	if a.below != "" && len(a.files) == 0 {
		return nil, newError(Invalid, host, "the archive has no file below the path %s", a.below)
	}
	slices.SortFunc(a.files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return a.files, nil
}

// unpacking is an archive that is being unpacked.
type unpacking struct {
	host   string
	limits Limits
	below  string // the directory; empty: all
	left   int64  // bytes that further files may have; an archive states holes in files without their bytes
	seen   map[string]byte
	files  []File
	number int // of entries
}

func (a *unpacking) tooLarge() error {
	return newError(TooLarge, a.host, "the unpacked archive is too large: the limit is %d bytes", a.limits.Unpacked)
}

// add adds an entry.
func (a *unpacking) add(header *tar.Header, content io.Reader) error {
	if a.number++; a.number > a.limits.Files {
		return newError(TooLarge, a.host, "the archive has too many files: the limit is %d", a.limits.Files)
	}
	if header.Typeflag == tar.TypeXGlobalHeader { // the comment of git archive
		return nil
	}
	name, ok := entryPath(header.Name)
	if !ok {
		return newError(Invalid, a.host, "the archive has the path %s: only relative paths without \"..\", control characters and backslashes, of at most %d bytes, are allowed", quoted(header.Name), maxEntryPath)
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeDir:
	case tar.TypeSymlink, tar.TypeLink:
		return newError(Invalid, a.host, "the archive has a link, %s: only files and directories are allowed", quoted(name))
	default:
		return newError(Invalid, a.host, "the archive has %s, which is neither a file nor a directory", quoted(name))
	}
	kind, known := a.seen[name]
	if known && (kind != tar.TypeDir || header.Typeflag != tar.TypeDir) || header.Typeflag == tar.TypeReg && (name == "." || strings.HasSuffix(header.Name, "/")) {
		return newError(Invalid, a.host, "the archive has the path %s twice, or as a file and a directory", quoted(name))
	}
	a.seen[name] = header.Typeflag
	if header.Typeflag == tar.TypeDir || a.below != "" && !strings.HasPrefix(name, a.below+"/") {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(content, a.left+1))
	if a.left -= int64(len(data)); a.left < 0 {
		return a.tooLarge()
	}
	if err != nil {
		return newError(Invalid, a.host, "the archive is damaged, or ends too early")
	}
	a.files = append(a.files, File{Path: name, Data: data})
	return nil
}

// quoted quotes the beginning of a text from an archive.
func quoted(text string) string {
	if len(text) > maxEntryPath {
		text = text[:maxEntryPath] + "…"
	}
	return fmt.Sprintf("%q", text)
}
