package stdio

import "os"

// gathers is false: a probe could not write at Close what was gathered.
const gathers = false

// A probe writes nothing here: a write to a pipe of this system cannot be kept from waiting.
type probe struct{}

func (probe) init(*os.File) {}

func (probe) write([]byte) (int, error) { return 0, nil }

// tryRead reads nothing: the job's end has closed the pipe, so that a plain read has seen all of it.
func tryRead(*os.File, []byte) int { return 0 }
