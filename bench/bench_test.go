package bench

import (
	"fmt"
	"os"
	"testing"
)

var children *Children

func TestMain(m *testing.M) {
	var err error
	if children, err = Build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	children.Remove()
	os.Exit(status)
}

// BenchmarkPingPong, BenchmarkPipelined and BenchmarkToolCall are the loads of the table, one after the other. For
// ratios use cmd/compare: what is measured a minute apart cannot be compared on a machine that does other things.

func BenchmarkPingPong(b *testing.B)  { benchmark(b, PingPong) }
func BenchmarkPipelined(b *testing.B) { benchmark(b, Pipelined) }
func BenchmarkToolCall(b *testing.B)  { benchmark(b, ToolCall) }

func benchmark(b *testing.B, kind Kind) {
	for _, load := range Loads() {
		if load.Kind != kind {
			continue
		}
		for _, peer := range load.Peers() {
			b.Run(fmt.Sprintf("%s/%s", load.of(), peer), func(b *testing.B) {
				session, err := Open(children, peer, load)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				if err := session.Run(b.N); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := session.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
