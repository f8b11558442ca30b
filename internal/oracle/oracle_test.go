package oracle_test

import (
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/backend/backendtest"
	"github.com/cofferdam-ml/cofferdam/internal/oracle"
)

// The formula part compares the oracle with itself; every law and every rule
// with a known answer counts.
func TestSuite(t *testing.T) {
	backendtest.Run(t, func(testing.TB) backend.Backend { return oracle.New() })
}
