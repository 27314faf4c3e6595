//go:build unix

package stdio_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised/stdio"
)

func open(b *testing.B, cmd stdio.Command) mcp.Connection {
	transport, err := cmd.Mint(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	conn, err := transport.Connect(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.(connection).Kill() })
	return conn
}

func BenchmarkWrite(b *testing.B) {
	conn := open(b, shell(`cat >/dev/null`))
	m := call(1, `{"name":"greet","arguments":{"to":"everyone"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := conn.Write(context.Background(), m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteFromMany(b *testing.B) {
	conn := open(b, shell(`cat >/dev/null`))
	m := call(1, `{"name":"greet","arguments":{"to":"everyone"}}`)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for pb.Next() {
			if err := conn.Write(ctx, m); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	conn := open(b, stdio.Command{Args: []string{"yes", answer(1)}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Read(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	conn := open(b, self("echo"))
	m := call(1, `{"name":"greet","arguments":{"to":"everyone"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := conn.Write(context.Background(), m); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Read(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSpawnAndKill(b *testing.B) {
	cmd := stdio.Command{Args: []string{"cat"}}
	for b.Loop() {
		transport, err := cmd.Mint(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		conn, err := transport.Connect(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := conn.(connection).Kill(); err != nil {
			b.Fatal(err)
		}
	}
}
