package fsm_test

import (
	"context"
	"testing"

	looplab "github.com/looplab/fsm"
)

// The two benchmarks do the same round trip, two transitions an operation: what
// the first costs over the second is the price of typed states, guards and the
// refusal to hang.

func BenchmarkFire(b *testing.B) {
	m := newLine(b, lineGuards())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Fire(dial, call{}); err != nil {
			b.Fatal(err)
		}
		if _, err := m.Fire(failed, call{wrongNumber: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBareEngine(b *testing.B) {
	engine := looplab.NewFSM("idle", looplab.Events{
		{Name: "dial", Src: []string{"idle"}, Dst: "dialing"},
		{Name: "failed", Src: []string{"dialing"}, Dst: "idle"},
	}, nil)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := engine.Event(ctx, "dial"); err != nil {
			b.Fatal(err)
		}
		if err := engine.Event(ctx, "failed"); err != nil {
			b.Fatal(err)
		}
	}
}
