package versions

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzReadIndex: any text is read without a panic, and what is found is within the limits.
func FuzzReadIndex(f *testing.F) {
	for _, seed := range []string{
		helmIndex, `{"entries":{"podinfo":[{"version":"1.0.0","created":"2026-01-01T00:00:00Z"},{}],"x":[[[{}]]]}}`, "entries:\n  podinfo:\n  - {version: 1.0.0}\n", "entries:\n    podinfo:\n      - &a\n        version: |\n          1\n",
		"entries:\n  podinfo:\n  - version: *x\n  -\n  - - - -\n", "\xef\xbb\xbf---\nentries: {}\n", "{", "entries:\n  \"podinfo\": # x\n   -  'version':  \"\\u0031\"\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := 0
		one := &chart{add: func(e *entry) bool {
			if found++; e != nil {
				require.LessOrEqual(t, len(e.Version)+len(e.Created)+len(e.Digest), 2*maxJSONEntry)
			}
			return found < 10
		}}
		if err := readIndex(strings.NewReader(text), map[string]*chart{"podinfo": one}); err != nil {
			require.LessOrEqual(t, len(err.Error()), 200)
		}
		require.LessOrEqual(t, found, 10)
	})
}

// FuzzTags: any page of tags is read without a panic.
func FuzzTags(f *testing.F) {
	for _, seed := range []string{`{"name":"x","tags":["1.0.0","latest"]}`, `{"tags":null}`, `{"tags":[[]]}`, `{"tags":["a"],"tags":["b"]}`, `{"a":{"tags":["x"]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := 0
		_ = decodeTags(strings.NewReader(text), func(string) bool { found++; return found < 10 })
		require.LessOrEqual(t, found, 10)
	})
}

// FuzzUnpack: any archive is refused, or is unpacked within the limits to different paths below the directory.
func FuzzUnpack(f *testing.F) {
	var plain []byte // the archive before compression, so that mutations reach its parser
	for _, entries := range [][]archiveEntry{
		{fileEntry("fleet/a.yaml", "kind: cluster"), fileEntry("b", "")},
		{fileEntry("fleet/"+strings.Repeat("d/", 100)+"f", "x")},
		{},
		{{Header: tar.Header{Name: "fleet/", Typeflag: tar.TypeDir}}, {Header: tar.Header{Name: "l", Linkname: "fleet", Typeflag: tar.TypeSymlink}}},
		{{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "0123"}}}, fileEntry("fleet/ü", "x")},
	} {
		unzipped, err := gzip.NewReader(bytes.NewReader(archiveOf(f, entries...)))
		require.NoError(f, err)
		plain, err = io.ReadAll(unzipped)
		require.NoError(f, err)
		f.Add(plain, "fleet")
		f.Add(plain, "")
	}
	f.Fuzz(func(t *testing.T, plain []byte, below string) {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.NoCompression)
		require.NoError(t, err)
		_, err = w.Write(plain)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		limits := Limits{Unpacked: 1 << 16, Files: 20}
		files, err := unpack(packed.Bytes(), limits, "host", below)
		if err != nil {
			require.Nil(t, files)
			require.LessOrEqual(t, len(err.Error()), 2000)
			require.True(t, utf8.ValidString(err.Error()))
			return
		}
		size := 0
		for _, file := range files {
			size += len(file.Data)
			require.True(t, fs.ValidPath(file.Path), "%q", file.Path)
			if dir, ok := entryPath(below); ok && dir != "." {
				require.True(t, strings.HasPrefix(file.Path, dir+"/"), "%q", file.Path)
			}
		}
		require.LessOrEqual(t, size, 1<<16)
		require.LessOrEqual(t, len(files), 20)
		require.Len(t, paths(files), len(files))
	})
}
