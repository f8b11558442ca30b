// Package tiny embeds a small trained GLM in the published format.
//
// It is a glm_moe_dsa model of a few million parameters with its own tokenizer:
// the model of first commands, examples and tests of host programs. MODEL.md says
// what it was trained on, and what it can and cannot do; train holds the recipe,
// tasks what was held out.
//
// # Caveats
//
// The weights are in the binary, about ten megabytes. A demonstration and test
// model is no useful coder.
package tiny

import (
	"embed"
	"io/fs"
)

//go:embed model
var files embed.FS

// LatentEps is the epsilon of the latent norms that the model was trained with:
// that of the public reference implementation's class.
const LatentEps = 1e-6

// FS returns the checkpoint directory.
func FS() fs.FS {
	sub, err := fs.Sub(files, "model")
	if err != nil {
		panic(err) // the name is a valid path
	}
	return sub
}
