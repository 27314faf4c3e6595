package supervised_test

import (
	"testing"
	"time"

	"github.com/seed7990db67/supervised"
)

func TestD2_DeathAndReplacement(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.connect()
		first, _ := r.call("tools/call")
		r.call("tools/call")
		r.Last().Reply(first, `"one"`)
		want(r, "answers", lines(`1 "one"`), r.read())

		r.Last().Die(errCrash)
		r.wantState(supervised.StateRespawnPending)
		want(r, "promised", true, r.Reconnecting())
		want(r, "failed", lines("2 peer lost"), r.read())
		_, err := r.call("tools/call")
		want(r, "refused", "reconnecting", kind(err))
		want(r, "hooks", lines("close: crash"), r.hooks())

		pass(99 * time.Millisecond)
		want(r, "minted before the delay is over", 1, r.Minted())
		pass(time.Millisecond)
		r.wantState(supervised.StateServing)
		want(r, "hooks", lines("reconnect"), r.hooks())
		id, err := r.call("tools/call")
		want(r, "accepted", "ok", kind(err))
		r.Last().Reply(id, `"four"`)
		want(r, "answers", lines(`4 "four"`), r.read())
	})
}
