//go:build !linux

package stdio

import "os"

// A capacity is how much a pipe holds, which is the system's affair here.
type capacity struct{}

func (capacity) raise(*os.File) {}

func (capacity) closed() {}
