// Dotsvg reads the DOT of a diagram from standard input and writes its SVG to
// standard output.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/seed7990db67/supervised/diagram/svg"
)

func main() {
	if err := convert(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dotsvg:", err)
		os.Exit(1)
	}
}

func convert(in io.Reader, out io.Writer) error {
	dot, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	drawing, err := svg.Render(string(dot))
	if err != nil {
		return err
	}
	_, err = out.Write(drawing)
	return err
}
