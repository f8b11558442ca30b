// Package plot draws line charts as PNG, for the reports of the benchmarks.
//
// # Caveats
//
// It draws what those reports need: lines with dots over a linear or logarithmic
// x axis, y from zero, and a legend.
package plot

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
)

// Series is one line: Y over X, of equal length.
type Series struct {
	Name string
	X, Y []float64
}

// Chart is a picture of some series.
type Chart struct {
	Title, X, Y string
	LogX        bool // distances on the x axis are ratios; X must be positive
	Series      []Series
}

// The picture's size, and the room around the axes. Above them stand the title and
// the legend, a line a series.
const (
	width, tall         = 960, 600
	left, right, bottom = 110, 30, 70
	title, legend       = 40, height + 8
)

var (
	black = color.RGBA{40, 40, 40, 255}
	grey  = color.RGBA{220, 220, 220, 255}
	lines = []color.RGBA{
		{31, 119, 180, 255}, {214, 39, 40, 255}, {44, 160, 44, 255}, {148, 103, 189, 255}, {255, 127, 14, 255}, {120, 120, 120, 255},
	}
)

// Write writes the chart as PNG. A chart without a finite point is an error.
func (c Chart) Write(w io.Writer) error {
	x0, x1, y1 := math.Inf(1), math.Inf(-1), 0.0
	for _, s := range c.Series {
		if len(s.X) != len(s.Y) {
			return fmt.Errorf("plot: series %q has %d x and %d y", s.Name, len(s.X), len(s.Y))
		}
		for i, x := range s.X {
			if y := s.Y[i]; math.IsNaN(x+y) || math.IsInf(x+y, 0) || c.LogX && x <= 0 {
				return fmt.Errorf("plot: series %q has the point %g, %g", s.Name, x, y)
			}
			x0, x1, y1 = min(x0, x), max(x1, x), max(y1, s.Y[i])
		}
	}
	if x0 > x1 {
		return fmt.Errorf("plot: chart %q has no point", c.Title)
	}
	if y1 == 0 {
		y1 = 1
	}
	step := niceStep(y1)
	y1 = math.Ceil(y1/step) * step
	img := image.NewRGBA(image.Rect(0, 0, width, tall))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)

	place := func(x float64) float64 {
		a, b := x0, x1
		if c.LogX {
			x, a, b = math.Log(x), math.Log(a), math.Log(b)
		}
		if a == b {
			return left
		}
		return left + (x-a)/(b-a)*(width-left-right)
	}
	top := title + len(c.Series)*legend + 8
	rise := func(y float64) float64 { return tall - bottom - y/y1*float64(tall-top-bottom) }

	for y := 0.0; y <= y1+step/2; y += step {
		at := int(rise(y))
		fill(img, image.Rect(left, at, width-right, at+1), grey)
		label := fmt.Sprintf("%.4g", y)
		text(img, left-10-textWidth(label), at-height/2, label, black)
	}
	c.labelX(img, x0, x1, place)
	fill(img, image.Rect(left, tall-bottom, width-right, tall-bottom+2), black)
	fill(img, image.Rect(left, top, left+2, tall-bottom), black)
	text(img, (width-textWidth(c.Title))/2, 12, c.Title, black)
	text(img, left, top-height-10, c.Y, black)
	text(img, width-right-textWidth(c.X), tall-height-12, c.X, black)

	for i, s := range c.Series {
		ink := lines[i%len(lines)]
		for j := range s.X {
			x, y := place(s.X[j]), rise(s.Y[j])
			disc(img, x, y, 5, ink)
			if j > 0 {
				line(img, place(s.X[j-1]), rise(s.Y[j-1]), x, y, ink)
			}
		}
		at := title + i*legend
		x := width - right - textWidth(s.Name)
		fill(img, image.Rect(x-30, at+height/2-1, x-8, at+height/2+2), ink)
		text(img, x, at, s.Name, ink)
	}
	return png.Encode(w, img)
}

// labelX marks the x of every point, where there is room.
func (c Chart) labelX(img *image.RGBA, x0, x1 float64, place func(float64) float64) {
	ends := left - 100
	for _, x := range c.ticks(x0, x1) {
		label, at := short(x), int(place(x))
		from := min(at-textWidth(label)/2, width-right/2-textWidth(label))
		if from < ends {
			continue
		}
		fill(img, image.Rect(at, tall-bottom, at+2, tall-bottom+8), black)
		text(img, from, tall-bottom+14, label, black)
		ends = from + textWidth(label) + 8
	}
}

// ticks returns the x that any series has, ascending.
func (c Chart) ticks(x0, x1 float64) (xs []float64) {
	for x := x0; ; {
		xs = append(xs, x)
		next := math.Inf(1)
		for _, s := range c.Series {
			for _, v := range s.X {
				if v > x {
					next = min(next, v)
				}
			}
		}
		if next > x1 {
			return xs
		}
		x = next
	}
}

// short writes a number of tokens: 4096 is 4k, 1048576 is 1M.
func short(x float64) string {
	switch n := int(x); {
	case float64(n) == x && n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dM", n>>20)
	case float64(n) == x && n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dk", n>>10)
	}
	return fmt.Sprintf("%g", x)
}

// niceStep returns 1, 2 or 5 times a power of ten, four to ten of which reach y.
func niceStep(y float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(y)))
	switch {
	case y/step < 2:
		return step / 5
	case y/step < 4:
		return step / 2
	}
	return step
}

func fill(img *image.RGBA, r image.Rectangle, c color.Color) {
	draw.Draw(img, r, image.NewUniform(c), image.Point{}, draw.Src)
}

func disc(img *image.RGBA, x, y, r float64, c color.Color) {
	for j := int(y - r); j <= int(y+r); j++ {
		for i := int(x - r); i <= int(x+r); i++ {
			if dx, dy := float64(i)-x, float64(j)-y; dx*dx+dy*dy <= r*r {
				img.Set(i, j, c)
			}
		}
	}
}

func line(img *image.RGBA, x0, y0, x1, y1 float64, c color.Color) {
	n := math.Ceil(max(math.Abs(x1-x0), math.Abs(y1-y0)))
	for i := 0.0; i <= n; i++ {
		disc(img, x0+(x1-x0)*i/max(n, 1), y0+(y1-y0)*i/max(n, 1), 1.6, c)
	}
}
