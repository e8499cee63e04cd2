// Records archives as Go writes them: `go run record.go` in this folder. Go is not among what the tests install, so its archives are kept.
// The files are those of ../site.rs.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"os"
	"strings"
	"time"
)

var folders = []string{"./", "assets/", "docs/"}

var files = [][2]string{
	{"index.html", "<!doctype html><title>Home</title>\n"},
	{"404.html", "<p>not found</p>\n"},
	{"assets/app.js", strings.Repeat("console.log('app');\n", 100)},
	{"assets/empty.txt", ""},
	{"docs/caf\u00e9 \u2014 m\u00e9nu.html", "<p>caf\u00e9</p>\n"},
	{"docs/" + strings.Repeat("long-name-", 12) + ".html", "<p>long</p>\n"},
	{strings.Repeat("deep-folder/", 14) + "page.html", "<p>deep</p>\n"},
}

var when = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func writeTar(name string, format tar.Format, header func(*tar.Header)) {
	file, err := os.Create(name)
	check(err)
	compressed := gzip.NewWriter(file)
	writer := tar.NewWriter(compressed)
	for _, folder := range folders {
		head := &tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755, ModTime: when, Format: format}
		header(head)
		check(writer.WriteHeader(head))
	}
	for _, entry := range files {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: entry[0], Mode: 0o644, Size: int64(len(entry[1])), ModTime: when, Format: format}
		header(head)
		check(writer.WriteHeader(head))
		_, err := writer.Write([]byte(entry[1]))
		check(err)
	}
	check(writer.Close())
	check(compressed.Close())
	check(file.Close())
}

func writeZip(name string, method uint16) {
	file, err := os.Create(name)
	check(err)
	writer := zip.NewWriter(file)
	for _, entry := range files {
		head := &zip.FileHeader{Name: entry[0], Method: method, Modified: when}
		body, err := writer.CreateHeader(head)
		check(err)
		_, err = body.Write([]byte(entry[1]))
		check(err)
	}
	check(writer.Close())
	check(file.Close())
}

func main() {
	plain := func(*tar.Header) {}
	writeTar("go-unspecified.tar.gz", tar.FormatUnknown, plain)
	writeTar("go-gnu.tar.gz", tar.FormatGNU, plain)
	writeTar("go-pax.tar.gz", tar.FormatPAX, func(head *tar.Header) {
		head.AccessTime, head.ChangeTime = when, when
		head.PAXRecords = map[string]string{"SVC.comment": "two\nlines"}
	})
	writeTar("go-large-ids.tar.gz", tar.FormatGNU, func(head *tar.Header) { head.Uid, head.Gid = 1<<31, 1<<32 })
	writeZip("go-deflate.zip", zip.Deflate)
	writeZip("go-store.zip", zip.Store)
}
