// Gen writes the pictures and tables of the lifecycle, from the table that the
// machine runs. It is what go generate runs, from the root of the module:
//
//	go run ./gen           write them anew
//	go run ./gen -check    change nothing, and fail, saying what is stale
//
// To check, it needs nothing but the standard library. To write, it runs the
// renderer of diagram/svg, which is a module of its own.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/seed7990db67/supervised"
)

func main() {
	check := flag.Bool("check", false, "change nothing; fail if a file is stale")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(check bool) error {
	w, err := written(supervised.Lifecycle())
	if err != nil {
		return err
	}
	if check {
		if stale := w.stale("."); len(stale) > 0 {
			return errors.Join(append(stale, errors.New("gen: go generate ./... writes them anew"))...)
		}
		return nil
	}
	drawing, err := render(w.dot)
	if err != nil {
		return err
	}
	return w.write(".", drawing)
}

// render has the other module draw the SVG.
func render(dot string) ([]byte, error) {
	var out, complaint bytes.Buffer
	cmd := exec.Command("go", "run", "./dotsvg")
	cmd.Dir = filepath.Join("diagram", "svg")
	cmd.Stdin = bytes.NewBufferString(dot)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("gen: diagram/svg: %w\n%s", err, &complaint)
	}
	return out.Bytes(), nil
}
