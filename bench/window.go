package bench

import "sync/atomic"

// A window bounds how many requests are unanswered, the same for every peer, so that a writer and a reader at full
// speed cannot fill both pipes and wait for each other. It costs an atomic load or add a message where nobody has
// to wait. A writer that has to is woken when half of the window is free, not for each message.
type window struct {
	size     int64
	sent     int64 // the writer's alone
	answered atomic.Int64
	target   atomic.Int64  // how many answers the writer waits for; 0: it does not wait
	wake     chan struct{} // gets a token from whoever takes target back to 0 for the writer
}

func newWindow(size int) *window {
	return &window{size: int64(size), wake: make(chan struct{}, 1)}
}

// acquire waits until one more request may be sent. It is for one goroutine.
func (w *window) acquire() {
	if w.sent-w.answered.Load() >= w.size {
		target := w.sent - w.size/2
		w.target.Store(target)
		if w.answered.Load() < target || !w.target.CompareAndSwap(target, 0) {
			<-w.wake
		}
	}
	w.sent++
}

// release says that n more were answered. It is for one goroutine.
func (w *window) release(n int) {
	answered := w.answered.Add(int64(n))
	if target := w.target.Load(); target != 0 && answered >= target && w.target.CompareAndSwap(target, 0) {
		w.wake <- struct{}{}
	}
}
