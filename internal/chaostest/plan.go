//go:build unix

package chaostest

import (
	"fmt"
	"math/rand/v2"
)

// A Fault is one way in which a server goes wrong.
type Fault string

// What ends a life. In brackets is who does it: the server itself, or the killer, who is told by the server that the
// moment has come and acts a little later, from outside.
const (
	Kill         Fault = "SIGKILL"                      // killer
	Term         Fault = "SIGTERM"                      // killer
	StopKill     Fault = "SIGSTOP, then SIGKILL"        // killer
	StopRestart  Fault = "SIGSTOP, then Restart"        // killer
	Restart      Fault = "Restart of a live server"     // killer
	Silent       Fault = "silent, then Restart"         // server, killer
	ExitZero     Fault = "exit 0"                       // server
	ExitOther    Fault = "exit n"                       // server
	CloseStdout  Fault = "stdout closed, lives on"      // server
	CloseStdin   Fault = "stdin closed, lives on"       // server
	Garbage      Fault = "garbage, then exit"           // server
	Oversized    Fault = "an oversized line"            // server
	Flood        Fault = "a flood of stderr, then exit" // server
	Orphan       Fault = "a grandchild keeps the pipes" // server
	OrphanAbroad Fault = "a grandchild outside the group keeps the pipes"
)

// What a server survives, and what ends an attempt to replace it.
const (
	StopCont      Fault = "SIGSTOP, then SIGCONT"
	StrayLines    Fault = "garbage"
	StderrFlood   Fault = "a flood of stderr"
	MintFails     Fault = "factory fails"
	MintHangs     Fault = "factory hangs"
	StartFails    Fault = "process cannot be started"
	DiesAtStart   Fault = "dies at its start"
	HangsAtStart  Fault = "hangs at its start"
	DiesGreeting  Fault = "dies in its handshake or replay"
	HangsGreeting Fault = "hangs in its handshake or replay"
)

var (
	fatal = []Fault{Kill, Kill, Kill, Term, StopKill, StopRestart, Restart, Silent, ExitZero, ExitOther, CloseStdout,
		CloseStdin, Garbage, Oversized, Flood, Orphan, OrphanAbroad}
	nuisances = []Fault{StopCont, StrayLines, StderrFlood}
	stillborn = []Fault{MintFails, MintHangs, StartFails, DiesAtStart, DiesAtStart, HangsAtStart, DiesGreeting,
		DiesGreeting, HangsGreeting}
)

// A Point is how far a server has got with a request when its fault comes.
type Point int

const (
	Taken    Point = iota // read, and nothing else
	Executed              // and it stands in the ledger
	Half                  // and half of the answer is written
	Answered              // and the answer is written
	points
)

func (p Point) String() string {
	return [...]string{"taken", "executed", "half-answered", "answered"}[p]
}

// A Moment is when a fault comes: at a request, the first is 0, at a point of handling it.
type Moment struct {
	Fault   Fault
	Request int
	Point   Point
}

// A Plan is what happens to one life of a server. Its zero value is a life without an end.
type Plan struct {
	Life  int
	Old   bool   // speaks a protocol before 2026-07-28
	Seed  uint64 // of the server's own chances
	Birth Fault  // one of those that end an attempt; empty: it is born
	Lines int    // how many lines it reads before that, where it gets so far
	Code  int    // its exit code
	On    []Moment

	Token  string // in the arguments of each process of a run, so that what is left can be found
	Ledger string // the file
	Lock   string // the file that a live server holds locked
	Socket string // where the killer listens
}

// draw draws the plan of a life that sees perLife requests before its end, in the mean.
func draw(r *rand.Rand, life int, perLife int) Plan {
	p := Plan{Life: life, Seed: r.Uint64(), Code: 1 + r.IntN(255)}
	if life > 0 && r.IntN(6) == 0 {
		p.Birth = stillborn[r.IntN(len(stillborn))]
		p.Lines = r.IntN(4)
		return p
	}
	end := Moment{Fault: fatal[r.IntN(len(fatal))], Request: r.IntN(2*perLife + 1), Point: Point(r.IntN(int(points)))}
	if life > 0 && r.IntN(8) == 0 {
		end.Request = r.IntN(3) // in the replay, or right behind it
	}
	if r.IntN(3) == 0 {
		p.On = append(p.On, Moment{Fault: nuisances[r.IntN(len(nuisances))], Request: r.IntN(end.Request + 1), Point: Point(r.IntN(int(points)))})
	}
	p.On = append(p.On, end)
	return p
}

func (p Plan) String() string {
	if p.Birth != "" {
		return fmt.Sprintf("life %d: %s after %d lines", p.Life, p.Birth, p.Lines)
	}
	return fmt.Sprintf("life %d: %v", p.Life, p.On)
}
