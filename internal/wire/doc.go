// Package wire reads and writes JSON-RPC 2.0 messages, one JSON text each, as the SDK's [jsonrpc.Request] and
// [jsonrpc.Response].
//
// It stands in for jsonrpc.DecodeMessage and jsonrpc.EncodeMessage on paths that every message takes.
// [Decode] looks at each byte once: the pass that checks the syntax also finds the members. What a message
// carries (params, result, an error's data) is checked, never decoded, and aliases the line that it was read
// from. [Append] writes into the caller's buffer. [Member] and [Path] look into what a message carries, again
// without decoding it.
//
// # Where it differs from the SDK
//
// Both accept the same texts and give the same messages, oddities included (see [Decode]), except:
//
//   - Decode refuses anything but white space after the message. The SDK reads the first JSON text and
//     ignores the rest.
//   - Decode refuses every error code beyond int64. The SDK lets some of 20 and more digits wrap around.
//   - Decode judges the last of several "id" members only. The SDK refuses a message also where an earlier one
//     holds a number beyond float64.
//   - Append writes the "method" of every request. The SDK omits an empty one, and what is left reads as a
//     response.
//   - Append returns an error for a nil message. The SDK panics.
//   - Append keeps the white space in raw JSON that holds no line break. The SDK always removes it.
package wire
