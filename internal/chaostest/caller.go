//go:build unix

package chaostest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
)

// How a call ended for its caller.
const (
	endAnswered  = "answered"
	endLost      = "lost"      // ErrPeerLost: it may have run
	endRefused   = "refused"   // ErrReconnecting: it was never sent
	endImpatient = "impatient" // its own context: it may have run
	endClosed    = "closed"    // by the end of the round: it may have run
	endUnsent    = "unsent"    // by that end as well, when the SDK had begun the call and not yet written it
	endWrong     = "wrong"
)

// caller makes one call after the other.
func (r *run) caller(number uint64) {
	chance := rand.New(rand.NewPCG(r.Seed, 100+number))
	for !r.over() {
		if r.Pace > 0 {
			time.Sleep(time.Duration(float64(r.Pace) * float64(r.Callers) * chance.Float64() * 2))
		}
		if r.call(chance) == endRefused {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			if err := r.transport.WaitServing(ctx); errors.Is(err, context.DeadlineExceeded) {
				r.wrong("WaitServing: no server for a minute: %+v\n%s", r.transport.Stats(), stacks())
			}
			cancel()
		}
	}
}

// call makes one call, of any kind, with any patience.
func (r *run) call(chance *rand.Rand) (end string) {
	n := r.number.Add(1)
	meta := mcp.Meta{"n": n}
	if chance.IntN(10) == 0 {
		meta["want"] = chance.IntN(40 << 10)
	}
	pad := "" // a long request
	if chance.IntN(20) == 0 {
		pad = strings.Repeat("p", chance.IntN(100<<10))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own := false // the context is of a caller who may not wait for the answer
	switch chance.IntN(20) {
	case 0, 1:
		own = true
		ctx, cancel = context.WithTimeout(ctx, time.Duration(chance.IntN(30_000))*time.Microsecond)
		defer cancel()
	case 2:
		own = true
		stop := time.AfterFunc(time.Duration(chance.IntN(30_000))*time.Microsecond, cancel)
		defer stop.Stop()
	}

	kind, answer, err := r.ask(ctx, chance.IntN(100), meta, pad)
	life, seq := -1, 0
	switch {
	case err == nil:
		end = endAnswered
		got, ok1 := answer["n"].(float64)
		l, ok2 := answer["life"].(float64)
		s, ok3 := answer["seq"].(float64)
		life, seq = int(l), int(s)
		if !ok1 || !ok2 || !ok3 || int64(got) != n {
			r.wrong("call %d got the answer %v", n, answer)
			end = endWrong
		}
	case errors.Is(err, supervised.ErrReconnecting):
		end = endRefused
	case errors.Is(err, supervised.ErrPeerLost):
		end = endLost
		if kind != "tool" {
			r.wrong("read %d was lost: %v", n, err)
		}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		end = endImpatient
		if !own {
			r.wrong("call %d (%s) was not answered in a minute", n, kind)
		}
	case r.closing.Load() && errors.Is(err, mcp.ErrConnectionClosed):
		end = endClosed
	case r.closing.Load() && errors.Is(err, io.EOF):
		// The SDK fails a call that it has begun with what its Read returns at the end, io.EOF. Only one that was not
		// written by then can be left: all others have their answers in front of that.
		end = endUnsent
	default:
		end = endWrong
		r.wrong("call %d (%s) ended with %v", n, kind, err)
	}
	r.note("c %d %s %s %d %d", n, kind, end, life, seq)
	if end == endRefused {
		r.refused.Add(1)
	} else {
		r.written.Add(1)
		r.progress()
	}
	return end
}

// ask makes a call of a kind and returns its kind's name, and the _meta of the answer.
func (r *run) ask(ctx context.Context, kind int, meta mcp.Meta, pad string) (string, mcp.Meta, error) {
	few := strconv.Itoa(kind % 16) // the SDK keeps something for each URI and cursor there ever was
	switch {
	case kind < 45:
		res, err := r.session.CallTool(ctx, &mcp.CallToolParams{Meta: meta, Name: "effect", Arguments: map[string]any{"pad": pad}})
		if err != nil {
			return "tool", nil, err
		}
		return "tool", res.Meta, nil
	case kind < 80:
		res, err := r.session.ReadResource(ctx, &mcp.ReadResourceParams{Meta: meta, URI: "chaos://read/" + few})
		if err != nil {
			return "read", nil, err
		}
		return "read", res.Meta, nil
	case kind < 90:
		res, err := r.session.GetPrompt(ctx, &mcp.GetPromptParams{Meta: meta, Name: "p", Arguments: map[string]string{"pad": pad}})
		if err != nil {
			return "read", nil, err
		}
		return "read", res.Meta, nil
	case kind < 95:
		res, err := r.session.Complete(ctx, &mcp.CompleteParams{Meta: meta, Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "p"}})
		if err != nil {
			return "read", nil, err
		}
		return "read", res.Meta, nil
	default:
		res, err := r.session.ListTools(ctx, &mcp.ListToolsParams{Meta: meta, Cursor: few})
		if err != nil {
			return "read", nil, err
		}
		return "read", res.Meta, nil
	}
}
