// Command rivals measures the CPU backend beside a prebuilt llama.cpp, on the same
// machine, with the same weights, in the same minutes.
//
//	go run ./internal/bench/rivals -work DIR setup     installs it from npm and compiles the harnesses
//	go run ./internal/bench/rivals -work DIR products  matrix products and expert blocks, shape by shape
//	go run ./internal/bench/rivals -work DIR -layers 3 logits  holds logits against each other
//	go run ./internal/bench/rivals -work DIR -layers 47 -files q4_0 model  prompts and decoding of a whole model
//
// DIR lies outside the repository and holds the npm package, the harnesses and the
// model files (17.6 GB for 47 layers of four bits). What is needed of llama.cpp's
// interface is declared in c/, nothing of it is linked or copied. Its builds for
// AVX2 (haswell) and for AVX-512 (zen4) are both measured: our kernels are AVX2.
//
// Model files hold the numbers of package synthetic in formats of the rival. Each
// engine is a process of its own; in whole models one of them at a time.
//
// # Caveats
//
// It needs Linux on amd64, node's npm and gcc. Measured results are in RESULT.md
// beside this file.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
)

type options struct {
	layers, threads, context int
	rounds                   int
	secs                     float64
	variants, files          []string
	rows                     []int
	only, out, plots         string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("rivals: ")
	var o options
	work := flag.String("work", "", "directory outside the repository for everything that is fetched, built and written")
	flag.IntVar(&o.layers, "layers", 3, "layers of the model")
	flag.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "threads of either engine")
	flag.IntVar(&o.context, "context", 2112, "positions that a model has room for")
	flag.IntVar(&o.rounds, "rounds", 5, "how often engines take turns")
	flag.Float64Var(&o.secs, "secs", 0.15, "seconds of a turn, of products")
	variants := flag.String("variants", "haswell,zen4", "builds of the rival")
	files := flag.String("files", "q4_0,q4_k", "model files: bf16, q8_0, q4_0, q4_k")
	rows := flag.String("rows", "1,8,32,512", "rows of products")
	flag.StringVar(&o.only, "only", "", "only products whose name contains this")
	flag.StringVar(&o.out, "json", "", "write the results to this file")
	flag.StringVar(&o.plots, "plots", "", "draw whole models' charts into this directory")
	flag.Parse()
	o.variants, o.files = strings.Split(*variants, ","), strings.Split(*files, ",")
	if *work == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	for r := range strings.SplitSeq(*rows, ",") {
		n, err := strconv.Atoi(r)
		if err != nil || n < 1 {
			log.Fatalf("rows %q: want numbers above 0", *rows)
		}
		o.rows = append(o.rows, n)
	}
	dir, err := filepath.Abs(*work)
	if err == nil {
		err = run(workshop{dir}, o, flag.Args())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(w workshop, o options, args []string) error {
	for _, f := range o.files {
		if _, ok := mixes[f]; !ok {
			return fmt.Errorf("file %q: want bf16, q8_0, q4_0 or q4_k", f)
		}
	}
	var results any
	var err error
	switch args[0] {
	case "setup":
		return w.setup()
	case "write":
		for _, f := range o.files {
			if _, err := w.file(f, o.layers); err != nil {
				return err
			}
		}
		return nil
	case "products":
		results, err = w.compareProducts(o)
	case "logits":
		results, err = w.compareLogits(o)
	case "model":
		results, err = w.compareModels(o)
	case "serve": // our engine, started by this program
		if len(args) != 2 {
			return errors.New("serve: want a format")
		}
		period := 0
		if o.layers > exactLayers {
			period = 64
		}
		return serve(args[1], o.layers, o.threads, o.context, period, os.Stdin, os.Stdout)
	default:
		return fmt.Errorf("command %q: want setup, write, products, logits or model", args[0])
	}
	if o.out == "" || results == nil {
		return err
	}
	data, e := json.MarshalIndent(results, "", "\t")
	if e == nil {
		e = os.WriteFile(o.out, append(data, '\n'), 0o644)
	}
	return errors.Join(err, e)
}

// exactLayers is the most layers that ours has the very weights of the file with;
// rows of larger models repeat, so that they are made in seconds.
const exactLayers = 8

// ours starts our engine.
func (w workshop) ours(o options, format string) launch {
	return func() (*child, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return start("ours "+format, self, "-work", w.dir, "-layers", fmt.Sprint(o.layers), "-threads", fmt.Sprint(o.threads),
			"-context", fmt.Sprint(o.context), "serve", format)
	}
}

// theirs starts a build of the rival on a file, which is written unless it is there.
func (w workshop) theirs(o options, variant, file string) launch {
	return func() (*child, error) {
		path, err := w.file(file, o.layers)
		if err != nil {
			return nil, err
		}
		return start(variant+" "+file, w.path("model"), w.libraries(), variant, fmt.Sprint(o.threads), fmt.Sprint(o.context), path)
	}
}

// file returns the path of a model file, which is written unless it is there.
func (w workshop) file(name string, layers int) (string, error) {
	path := w.path(fmt.Sprintf("flash-%d-%s.gguf", layers, name))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	c, err := checkpoint.ParseConfig([]byte(synthetic.Flash(layers, 1, words)))
	if err != nil {
		return "", err
	}
	return path, writeGGUF(path, c, mixes[name])
}
