// Encode writes the differential corpus and what this project's tokenizer makes
// of it, for reference.py to compare.
//
//	go run tokenizer/differential/_encode/main.go -ranks FILE.tiktoken.gz -json tokenizer.json -out DIR
//
// DIR/corpus holds the documents, each as kind (a number), length and bytes;
// DIR/ours.ranks and DIR/ours.json the ids, each document as count and ids; with
// the ending .added, as EncodeWithAdded gives them. All numbers are 32 bits,
// little-endian. DIR/golden holds the documents of testdata/golden.json, written
// as in DIR/corpus.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
	"github.com/cofferdam-ml/cofferdam/tokenizer/internal/corpus"
)

const document = 32 << 10 // bytes

func main() {
	ranks := flag.String("ranks", "", "gzipped rank file")
	json := flag.String("json", "", "tokenizer.json")
	out := flag.String("out", "", "output directory")
	size := flag.Int("size", 20<<20, "bytes of text")
	seed := flag.Uint64("seed", 1, "seed of the text")
	flag.Parse()
	log.SetFlags(0)

	var texts []string
	var file []byte
	total := 0
	for i := 0; total < *size; i++ {
		kind := i % len(corpus.Kinds)
		text := corpus.Text(corpus.Kinds[kind], *seed<<32+uint64(i), document)
		texts = append(texts, text)
		file = appendDocument(file, kind, text)
		total += len(text)
	}
	write(filepath.Join(*out, "corpus"), file)

	var golden []byte
	for i, kind := range corpus.Kinds {
		golden = appendDocument(golden, i, corpus.Golden(kind))
	}
	write(filepath.Join(*out, "golden"), golden)

	for name, t := range map[string]*tokenizer.Tokenizer{"ranks": readRanks(*ranks), "json": readJSON(*json)} {
		start := time.Now()
		var plain []byte
		for _, text := range texts {
			plain = appendIDs(plain, t.Encode(nil, text))
		}
		fmt.Printf("%s: %d documents, %d bytes, %.1f MB/s\n", name, len(texts), total, float64(total)/time.Since(start).Seconds()/1e6)
		write(filepath.Join(*out, "ours."+name), plain)
		var added []byte
		for _, text := range texts {
			ids := t.EncodeWithAdded(nil, text)
			if got := string(t.Raw(nil, ids...)); got != text {
				log.Fatalf("%s: a document does not survive the round trip", name)
			}
			added = appendIDs(added, ids)
		}
		write(filepath.Join(*out, "ours."+name+".added"), added)
	}
}

func readRanks(name string) *tokenizer.Tokenizer {
	packed, err := os.ReadFile(name)
	check(err)
	r, err := gzip.NewReader(bytes.NewReader(packed))
	check(err)
	ranks, err := io.ReadAll(r)
	check(err)
	t, err := tokenizer.ParseRanks(ranks, tokenizer.GLMAdded(100_256))
	check(err)
	return t
}

func readJSON(name string) *tokenizer.Tokenizer {
	data, err := os.ReadFile(name)
	check(err)
	t, err := tokenizer.Parse(data)
	check(err)
	return t
}

func appendDocument(file []byte, kind int, text string) []byte {
	file = binary.LittleEndian.AppendUint32(file, uint32(kind))
	file = binary.LittleEndian.AppendUint32(file, uint32(len(text)))
	return append(file, text...)
}

func appendIDs(file []byte, ids []int32) []byte {
	file = binary.LittleEndian.AppendUint32(file, uint32(len(ids)))
	for _, id := range ids {
		file = binary.LittleEndian.AppendUint32(file, uint32(id))
	}
	return file
}

func write(name string, data []byte) { check(os.WriteFile(name, data, 0o666)) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
