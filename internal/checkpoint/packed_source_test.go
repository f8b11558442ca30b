package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"
)

func TestOutline(t *testing.T) {
	c, err := Open(writeFiles(t, newFixture(t, tinyDSA(), LayoutFP8).files(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name := range c.table.byName {
		whole, err := c.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		data, scale := bytes.Clone(whole.Data), bytes.Clone(whole.Scale.Data)
		c.Want(name)
		c.Forget(name, 0, len(data))
		c.Forget(name, -1, len(data)+1)
		if !bytes.Equal(whole.Data, data) || !bytes.Equal(whole.Scale.Data, scale) {
			t.Fatalf("%s: other bytes after Forget", name)
		}
		o, err := c.Outline(name)
		if err != nil || o.Name != name || o.DType != whole.DType || !slices.Equal(o.Shape, whole.Shape) || o.Data != nil || o.Scale.Data != nil {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	_, err = c.Outline("nothing")
	typed(t, err)
	c.Want("nothing")
	c.Forget("nothing", 0, 1)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Outline("lm_head.weight"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	c.Want("lm_head.weight")
	c.Forget("lm_head.weight", 0, 1)
}
