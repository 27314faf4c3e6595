//go:build unix

package chaostest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hour is what an hour's soak weighs where all is well.
func hour(change func(i int, s *Sample)) []Sample {
	var samples []Sample
	for i := range 360 {
		s := Sample{
			At: time.Duration(i) * 10 * time.Second, Heap: 2<<20 + i%7*50_000, Resident: 20<<20 + i%5*1_000_000,
			Goroutines: 140 + i%3, Descriptors: 22 - 4*(i%20/19), Connections: 2, Calls: 2000 * i, Deaths: 3 * i,
		}
		if change != nil {
			change(i, &s)
		}
		samples = append(samples, s)
	}
	return samples
}

func TestFlat(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(i int, s *Sample)
		wrong  string // empty: nothing is
	}{
		{"all is well", nil, ""},
		{"the beginning is another story", func(i int, s *Sample) {
			if i < 30 {
				s.Heap, s.Goroutines, s.Descriptors = 100<<20, 10, 3
			}
		}, ""},
		{"a descriptor for each hundred deaths", func(_ int, s *Sample) { s.Descriptors += s.Deaths / 100 }, "descriptors grow by"},
		{"a goroutine for each fifty deaths", func(_ int, s *Sample) { s.Goroutines += s.Deaths / 50 }, "goroutines grow by"},
		{"two kilobytes for each death", func(_ int, s *Sample) { s.Heap += 2000 * s.Deaths }, "heap after a collection grow by"},
		{"two bytes for each call", func(_ int, s *Sample) { s.Heap += 2 * s.Calls }, "heap after a collection grow by"},
		{"a connection for each hundred deaths", func(_ int, s *Sample) { s.Connections += s.Deaths / 100 }, "connections that are held grow by"},
		{"a peak", func(i int, s *Sample) {
			if i == 200 {
				s.Descriptors += 100
			}
		}, "over their mean after 33m20s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := Flat(hour(tt.change))
			switch {
			case tt.wrong == "" && err != nil:
				t.Errorf("found %v", err)
			case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
				t.Errorf("found %v, want %s", err, tt.wrong)
			}
		})
	}
	if err := Flat(hour(nil)[:10]); err == nil {
		t.Error("ten samples are said to be flat")
	}
}

func TestSamplesAreReadAsWritten(t *testing.T) {
	want := hour(nil)
	text := bytes.NewBufferString("seed 1\n")
	if err := WriteSamples(text, want); err != nil {
		t.Fatal(err)
	}
	text.WriteString("rounds  2\n")
	got, err := ReadSamples(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlot(t *testing.T) {
	var text bytes.Buffer
	if err := Plot(&text, "an hour", hour(nil)); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for d := xml.NewDecoder(bytes.NewReader(text.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != len(quantities) {
		t.Errorf("%d lines are drawn, want %d", lines, len(quantities))
	}
	for _, q := range quantities {
		if !strings.Contains(text.String(), q.name) {
			t.Errorf("the plot does not name %s", q.name)
		}
	}
}

// TestSoak is a second of what cmd/soak does for an hour, and too short to say that anything is flat.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("TestChaos does the same in less time")
	}
	samples, f, err := Soak{Seed: *seed, For: 2 * time.Second, Rate: 500, DeathEvery: time.Second, Every: 200 * time.Millisecond}.Run()
	if err != nil && !strings.Contains(err.Error(), "too few") {
		t.Error(err)
	}
	if len(samples) < 5 || f.Rounds != 2 || f.Calls == 0 {
		t.Errorf("%d samples, %+v", len(samples), f)
	}
	if _, mean := quantities[0].line(samples); mean <= 0 {
		t.Errorf("a heap of %v MiB", mean)
	}
}
