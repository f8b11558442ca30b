package synthetic

import (
	"errors"
	"runtime"
	"sync"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

const (
	// chunkBytes is how much memory is taken from the system at a time.
	chunkBytes = 64 << 20
	// reserve is left to others: a model too large for the machine is an error and not
	// the end of some process.
	reserve = 1 << 30
)

// arena gives out memory that lives until close.
type arena struct {
	regions []*offheap.Region
	free    []byte
	used    int
}

// alloc returns n bytes at the beginning of a cache line, in large pages where the
// system has them.
func (a *arena) alloc(n int) ([]byte, error) {
	round := (n + 63) &^ 63
	if round > len(a.free) {
		need := max(round, chunkBytes)
		if have := offheap.Available(); have >= 0 && have < int64(need)+reserve {
			return nil, &offheap.MemoryError{Need: int64(need) + reserve, Have: have}
		}
		r, err := offheap.AllocHuge(need)
		if err != nil {
			return nil, err
		}
		a.regions, a.free = append(a.regions, r), r.Bytes()
	}
	b := a.free[:n:n]
	a.free = a.free[round:]
	a.used += n
	return b, nil
}

func (a *arena) close() (err error) {
	for _, r := range a.regions {
		err = errors.Join(err, r.Close())
	}
	a.regions, a.free = nil, nil
	return err
}

// parallel cuts n rows into a part for each processor.
func parallel(n int, f func(first, last int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { f(i*n/workers, (i+1)*n/workers) })
	}
	wg.Wait()
}
