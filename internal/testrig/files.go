package testrig

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// noImports lets the types of a package be checked alone: expressions of imported types have no type.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

// fileUses returns, for each file of the package in the working directory, the files whose declarations it uses, with one such use: its
// place and the name.
func fileUses(t *testing.T) map[string]map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := checked.Check("package", fset, files, info) // each import is an error
	graph := map[string]map[string]string{}
	for name, obj := range info.Uses {
		from, to := fset.Position(name.Pos()), fset.Position(obj.Pos())
		if obj.Pkg() != pkg || from.Filename == to.Filename {
			continue
		}
		if graph[from.Filename] == nil {
			graph[from.Filename] = map[string]string{}
		}
		graph[from.Filename][to.Filename] = fmt.Sprintf("%s: %s of %s", from, obj.Name(), to.Filename)
	}
	return graph
}

// FilesBuildOnEachOther fails unless the files of the package under test use each other in one direction, so that they can be read in one
// order; least is the least number of files that use others. To mend a cycle, move a declaration that both sides need to the lower file,
// or what only the other file uses to that file.
func FilesBuildOnEachOther(t *testing.T, least int) {
	t.Helper()
	graph := fileUses(t)
	if len(graph) < least {
		t.Fatalf("%d files use others, expected at least %d", len(graph), least)
	}
	done := map[string]bool{}
	var path []string
	var visit func(file string)
	visit = func(file string) {
		if at := slices.Index(path, file); at >= 0 {
			cycle := append(slices.Clone(path[at:]), file)
			for i := range cycle[1:] {
				t.Log(graph[cycle[i]][cycle[i+1]])
			}
			t.Errorf("files use each other in a cycle: %s", strings.Join(cycle, " -> "))
			return
		}
		if done[file] {
			return
		}
		path = append(path, file)
		for _, next := range slices.Sorted(maps.Keys(graph[file])) {
			visit(next)
		}
		path, done[file] = path[:len(path)-1], true
	}
	for _, file := range slices.Sorted(maps.Keys(graph)) {
		visit(file)
	}
}
