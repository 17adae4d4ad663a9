package rig

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// Image is a container image of one layer. It needs no registry and no builder: containerd imports the archive.
type Image struct {
	Name       string
	User       string
	WorkingDir string
	Entrypoint []string
	Files      []ImageFile
}

// ImageFile is a file of an image, or a directory where From is empty.
type ImageFile struct {
	Path     string // without the slash at its beginning
	From     string // file of this machine
	Mode     fs.FileMode
	UID, GID int
}

// write writes the image as `docker save` would.
func (i Image) write(to io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": i.User, "WorkingDir": i.WorkingDir, "Entrypoint": i.Entrypoint},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(to)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"manifest.json", manifest}, {"config.json", config}, {"layer.tar", layer}} {
		if err := archive.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}); err != nil {
			return err
		}
		if _, err := archive.Write(file.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (i Image) layer() ([]byte, error) {
	var out bytes.Buffer
	layer := tar.NewWriter(&out)
	for _, file := range i.Files {
		header := &tar.Header{Name: file.Path, Mode: int64(file.Mode), Uid: file.UID, Gid: file.GID, Typeflag: tar.TypeDir}
		var content []byte
		if file.From == "" {
			header.Name += "/"
		} else {
			var err error
			if content, err = os.ReadFile(file.From); err != nil {
				return nil, err
			}
			header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
		}
		if err := layer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := layer.Write(content); err != nil {
			return nil, err
		}
	}
	if err := layer.Close(); err != nil { // writes the end
		return nil, err
	}
	return out.Bytes(), nil
}
