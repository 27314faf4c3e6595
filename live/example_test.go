package live_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed7990db67/supervised"
	"github.com/seed7990db67/supervised/live"
)

func ExamplePage() {
	factory := func(context.Context) (mcp.Transport, error) { return nil, errors.New("no such program") }
	transport := must(supervised.New(factory))

	page := live.New()
	defer page.Close()
	page.Add("files", transport) // before Connect, to see that as well
	mux := http.NewServeMux()
	mux.Handle("/supervised/", page)

	transport.Connect(context.Background())
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/supervised/", nil))
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	fmt.Println(strings.Contains(answer.Body.String(), "<title>idle · files · supervised</title>"))
	// Output:
	// 200 text/html; charset=utf-8
	// true
}
