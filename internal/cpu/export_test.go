package cpu

// SetScoreBudget lowers how many index scores are held at once.
func (b *Backend) SetScoreBudget(n int) { b.scoreBudget = n }
