// Package checkpoint reads GLM mixture-of-experts checkpoints in the published
// format: config.json, generation_config.json and safetensors.
package checkpoint
