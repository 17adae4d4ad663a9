package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
)

// ReadFiles returns the documents of files and directories. read returns the content of a file. All errors are about the command
// line, and those about documents are reported together.
func ReadFiles(kinds documents.Kinds, names []string, read func(file string) ([]byte, error)) ([]documents.Document, error) {
	reader := documents.Reader{Kinds: kinds}
	for _, name := range names {
		files, err := FilesOf(name)
		if err != nil {
			return nil, args.Error{Err: err}
		}
		for _, file := range files {
			data, err := read(file)
			if err != nil {
				return nil, args.Error{Err: err}
			}
			reader.Add(data, input.SourceName(file))
		}
	}
	docs, err := reader.Documents()
	if err != nil {
		return nil, args.Errorf("%w", err)
	}
	if len(docs) == 0 {
		return nil, args.Errorf("there is no document in %s", args.ListOf(names))
	}
	return docs, nil
}

// FilesOf returns the files of an argument: of a directory, in the order of their paths, without names that start with a dot.
func FilesOf(name string) ([]string, error) {
	if name == "" {
		return nil, errors.New("-f needs the name of a file or directory")
	}
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	root := name + string(filepath.Separator) // follows a symbolic link
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
		case !entry.IsDir() && documents.IsFile(entry.Name()):
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no .yaml, .yml or .json file in %s", name)
	}
	return files, err
}
