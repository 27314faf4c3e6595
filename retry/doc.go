// Package retry decides which requests outlive the peer that was carrying them.
//
// When a peer dies, nobody knows whether it had acted on the requests that it
// had not answered. Sending one again is right only where doing it twice is the
// same as doing it once. [ReadOnly] keeps the requests of the Model Context
// Protocol that read and change nothing; [Never] keeps none. Whoever knows their
// server can say more in a [Policy] of their own:
//
//	retry.PolicyFunc(func(r *jsonrpc.Request) bool {
//		return retry.ReadOnly.Retain(r) || r.Method == "vendor/status"
//	})
package retry
