package offheap

import "os"

// What is below tells the system what is read next and what is not read again. It
// changes how long reading takes and how much memory holds copies of files, never
// what is read, so nothing here reports an error. Only Linux listens.

// Want has bytes [lo, hi) of a mapped file read ahead. Other regions are there
// already.
func (r *Region) Want(lo, hi int) { r.advise(lo, hi, true) }

// Forget takes bytes [lo, hi) of a mapped file out of this process. Touching them
// brings them back, from memory or disk. Other regions keep theirs: they have no
// other copy.
func (r *Region) Forget(lo, hi int) { r.advise(lo, hi, false) }

func (r *Region) advise(lo, hi int, want bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file && 0 <= lo && lo < hi && hi <= len(r.b) {
		advise(r.b[lo:hi], want)
	}
}

// WantFile has n bytes of a file read ahead.
func WantFile(f *os.File, off, n int64) { adviseFile(f, off, n, true) }

// ForgetFile drops the system's copy of n bytes of a file, if they are on disk
// and nobody has them mapped.
func ForgetFile(f *os.File, off, n int64) { adviseFile(f, off, n, false) }
