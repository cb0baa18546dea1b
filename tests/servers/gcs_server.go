// fake-gcs-server with the one request of Google's XML interface that it lacks: an object as the body of a PUT, made
// only if there is none (x-goog-if-generation-match: 0). It becomes the same request of the JSON interface.
package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	address := os.Args[1]
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, Scheme: "http", ExternalURL: "http://" + address, PublicHost: address,
	})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	panic(http.Serve(listener, puts(server.HTTPHandler())))
}

func puts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, asked *http.Request) {
		bucket, object, found := strings.Cut(strings.TrimPrefix(asked.URL.EscapedPath(), "/"), "/")
		if asked.Method != http.MethodPut || !found || bucket == "upload" || bucket == "storage" || bucket == "_internal" {
			next.ServeHTTP(answer, asked)
			return
		}
		name, _ := url.PathUnescape(object)
		bucket, _ = url.PathUnescape(bucket)
		query := url.Values{"uploadType": {"media"}, "name": {name}}
		if generation := asked.Header.Get("x-goog-if-generation-match"); generation != "" {
			query.Set("ifGenerationMatch", generation)
		}
		asked.Method = http.MethodPost
		asked.URL = &url.URL{Path: "/upload/storage/v1/b/" + bucket + "/o", RawQuery: query.Encode()}
		asked.RequestURI = asked.URL.RequestURI()
		made := httptest.NewRecorder()
		next.ServeHTTP(made, asked)
		var object_ struct{ Etag, Generation string }
		if made.Code == http.StatusOK && json.Unmarshal(made.Body.Bytes(), &object_) == nil {
			answer.Header().Set("ETag", object_.Etag)
			answer.Header().Set("x-goog-generation", object_.Generation)
			return
		}
		answer.WriteHeader(made.Code)
		_, _ = answer.Write(made.Body.Bytes())
	})
}
