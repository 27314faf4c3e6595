package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxRawDepth is how deep raw JSON may nest that is written: the limit of encoding/json. Whether the peer
// takes that much is for the peer to say.
const maxRawDepth = 10000

var errNil = errors.New("nil message")

// Append appends m as one line of JSON without the line break. Raw JSON (Params, Result, error Data) is
// checked and, where it has no line break between its tokens, copied as it is; else its white space goes.
//
// A Response.Error other than a *jsonrpc.Error is written as its text, with the code of the *jsonrpc.Error that
// it wraps, or 0.
//
// What m carries must not lie in the room behind dst. An error is an *[EncodeError], and dst is then returned
// as it was. Append allocates only to grow dst, to remove white space, and for an error.
func Append(dst []byte, m jsonrpc.Message) ([]byte, error) {
	start := len(dst)
	var err error
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m == nil {
			return dst, &EncodeError{Err: errNil}
		}
		dst, err = appendRequest(dst, m)
	case *jsonrpc.Response:
		if m == nil {
			return dst, &EncodeError{Err: errNil}
		}
		dst, err = appendResponse(dst, m)
	default: // the SDK has no third kind
		return dst, &EncodeError{Err: errNil}
	}
	if err != nil {
		return dst[:start], err
	}
	return append(dst, '}'), nil
}

// AppendID appends id as JSON; null for one that is not valid.
func AppendID(dst []byte, id jsonrpc.ID) []byte {
	switch v := id.Raw().(type) {
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case string:
		return appendText(dst, v)
	}
	return append(dst, "null"...)
}

func appendRequest(dst []byte, m *jsonrpc.Request) ([]byte, error) {
	dst = appendHead(dst, m.ID)
	dst = append(dst, `,"method":`...)
	dst = appendText(dst, m.Method)
	return appendRaw(dst, "params", m.Params)
}

func appendResponse(dst []byte, m *jsonrpc.Response) ([]byte, error) {
	dst = appendHead(dst, m.ID)
	dst, err := appendRaw(dst, "result", m.Result)
	if err != nil {
		return dst, err
	}
	return appendError(dst, m.Error)
}

// appendHead appends what every message begins with.
func appendHead(dst []byte, id jsonrpc.ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id.IsValid() {
		dst = AppendID(append(dst, `,"id":`...), id)
	}
	return dst
}

func appendError(dst []byte, err error) ([]byte, error) {
	if err == nil {
		return dst, nil
	}
	e, ok := err.(*jsonrpc.Error) // not errors.As: what wraps one has a text of its own
	if ok && e == nil {
		return dst, nil
	}
	if !ok {
		e = &jsonrpc.Error{Message: err.Error()}
		var wrapped *jsonrpc.Error
		if errors.As(err, &wrapped) && wrapped != nil {
			e.Code = wrapped.Code
		}
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, e.Code, 10)
	dst = append(dst, `,"message":`...)
	dst = appendText(dst, e.Message)
	dst, err = appendRaw(dst, "data", e.Data)
	return append(dst, '}'), err
}

// appendRaw appends the member key with the value raw, or nothing where raw is empty.
func appendRaw(dst []byte, key string, raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return dst, nil
	}
	s := scanner{data: raw, room: maxRawDepth}
	s.space()
	s.value()
	s.end()
	if err := s.err(); err != nil {
		return dst, &EncodeError{Member: key, Err: err}
	}
	dst = append(dst, `,"`...)
	dst = append(dst, key...)
	dst = append(dst, `":`...)
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...), nil
	}
	compact := bytes.NewBuffer(dst)
	if err := json.Compact(compact, raw); err != nil {
		return dst, &EncodeError{Member: key, Err: err}
	}
	return compact.Bytes(), nil
}
