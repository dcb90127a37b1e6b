// Package page is the web page of informd: files for the browser, embedded in the
// binary, and how streams are sent. The page asks for /status and what operators ask for. It decides
// nothing about access; package admin guards it like /status.
package page

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed assets
var assets embed.FS

// policy lets the page load its own files and ask informd, and nothing else: no script or
// style inside the document, no other site, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// Files serves the document at / and its parts below /page/. It is safe for concurrent use.
func Files() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	server := http.FileServerFS(files)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", server)
	mux.Handle("GET /page/", http.StripPrefix("/page", server))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		// The files change with informd's version.
		header.Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}
