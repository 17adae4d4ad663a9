package rig

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestImage: the archive and the layer in it end as archives do, or some importers take them for cut; and a program that is not
// there makes no archive.
func TestImage(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	image := Image{Name: "example.com/x:1", Files: []ImageFile{{Path: "program", From: program, Mode: 0o755}}}
	if err := image.write(&archive); err != nil {
		t.Fatal(err)
	}
	end := make([]byte, 1024)
	if !bytes.HasSuffix(archive.Bytes(), end) {
		t.Error("the archive has no end")
	}
	for files := tar.NewReader(&archive); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatal("no layer: ", err)
		}
		if header.Name == "layer.tar" {
			layer, err := io.ReadAll(files)
			if err != nil || !bytes.HasSuffix(layer, end) {
				t.Errorf("the layer of %d bytes has no end: %v", len(layer), err)
			}
			break
		}
	}
	archive.Reset()
	image.Files[0].From += "-gone"
	if err := image.write(&archive); !errors.Is(err, fs.ErrNotExist) || archive.Len() > 0 {
		t.Errorf("%v, %d bytes", err, archive.Len())
	}
}
