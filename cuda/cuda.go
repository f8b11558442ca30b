// Package cuda will compute programs on NVIDIA GPUs. It has no kernels yet: Open
// says so, and package glm passes that on as a *glm.DeviceError.
//
// # Caveats
//
// Nothing here runs. The package is there so that what will depend on it has a
// place to ask.
package cuda

import (
	"errors"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
)

// ErrNotBuilt: this build has no CUDA kernels.
var ErrNotBuilt = errors.New("cuda: not built")

// Open returns ErrNotBuilt.
func Open() (backend.Backend, error) { return nil, ErrNotBuilt }
