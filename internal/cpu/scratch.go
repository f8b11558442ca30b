package cpu

import "github.com/cofferdam-ml/cofferdam/internal/offheap"

// scratch is memory that operations share because no two use it at once. It
// grows to the largest step seen and stays there.
type scratch struct {
	latent, hidden, outputs, absorbed, blocks, scores slot
}

type slot struct{ region *offheap.Region }

// floats returns n values of no defined content.
func (s *slot) floats(n int) ([]float32, error) {
	if s.region == nil || len(s.region.Bytes()) < 4*n {
		grown, err := offheap.Alloc(4 * n)
		if err != nil {
			return nil, err
		}
		if s.region != nil {
			if err := s.region.Close(); err != nil {
				return nil, err
			}
		}
		s.region = grown
	}
	return s.region.Float32s()[:n], nil
}

func (s *scratch) regions() (open []*offheap.Region) {
	for _, slot := range []*slot{&s.latent, &s.hidden, &s.outputs, &s.absorbed, &s.blocks, &s.scores} {
		if slot.region != nil {
			open = append(open, slot.region)
		}
	}
	return open
}

// temp returns scratch of n values; without memory the step ends with an error
// and ok is false.
func (b *Backend) temp(s *slot, n int) (data []float32, ok bool) {
	data, err := s.floats(n)
	if err != nil {
		b.pool.fail(err)
		return nil, false
	}
	return data, true
}
