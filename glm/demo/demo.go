// Package demo opens the small trained GLM that is embedded in the module.
//
// It is a real glm_moe_dsa model of a few million parameters with its own
// tokenizer, for first steps, examples and tests of host programs on machines
// without a checkpoint. What it can and cannot do is in internal/tiny/MODEL.md.
package demo

import (
	"context"

	"github.com/cofferdam-ml/cofferdam/glm"
	"github.com/cofferdam-ml/cofferdam/internal/tiny"
)

// Open opens the embedded model on the CPU.
func Open(ctx context.Context) (*glm.Model, error) {
	return glm.OpenFS(ctx, tiny.FS(), glm.Config{LatentEps: tiny.LatentEps})
}
