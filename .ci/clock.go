// Command clock reports code that reads the system's clock, or waits by it, on
// its own. All time in this module comes from the clock in the options, so that
// a fake one decides it to the nanosecond; one call past it makes a test sleep,
// or pass by luck.
//
// It reads the Go files below the working directory, except those of tests,
// commands and examples. It prints one line for each find and exits with status
// 1 if there is any.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// forbidden are the functions that go by the system's clock, by import path.
var forbidden = map[string][]string{
	"time":    {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	"context": {"WithDeadline", "WithDeadlineCause", "WithTimeout", "WithTimeoutCause"},
}

func main() {
	finds, err := walk()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clock:", err)
		os.Exit(2)
	}
	for _, find := range finds {
		fmt.Println(find)
	}
	if len(finds) > 0 {
		fmt.Println("clock: ask the clock in the options instead (github.com/benbjohnson/clock)")
		os.Exit(1)
	}
}

func walk() (finds []string, err error) {
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && exempt(path):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		for _, use := range uses(file) {
			finds = append(finds, fmt.Sprintf("%v: %s", files.Position(use.pos), use.what))
		}
		return nil
	})
	return finds, err
}

// exempt says which directories may tell the time as they like: programs, which
// are where a real clock comes from, and helpers of tests, which are named as
// net/http/httptest is.
func exempt(dir string) bool {
	switch dir {
	case ".":
		return false
	case "bench", "cmd", "examples", "gen":
		return true
	}
	name := filepath.Base(dir)
	return name[0] == '.' || name == "testdata" || strings.HasSuffix(name, "test")
}

type use struct {
	pos  token.Pos
	what string
}

// uses returns where the file mentions a forbidden function, called or not. An
// import under another name is followed; one under the name "." would hide what
// it is used for, and is reported itself.
func uses(file *ast.File) (found []use) {
	packages := make(map[string]string) // the name in this file to the import path
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if forbidden[path] == nil {
			continue
		}
		name := path
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			found = append(found, use{spec.Pos(), `import . "` + path + `"`})
		}
		packages[name] = path
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		// An identifier with an object is declared in this file: a variable that
		// hides the import.
		if x, ok := selector.X.(*ast.Ident); ok && x.Obj == nil {
			path := packages[x.Name]
			if slices.Contains(forbidden[path], selector.Sel.Name) {
				found = append(found, use{selector.Pos(), path + "." + selector.Sel.Name})
			}
		}
		return true
	})
	return found
}
