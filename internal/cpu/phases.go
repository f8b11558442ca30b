package cpu

// phases are the arguments of the phases of operations, one of each kind because
// one phase runs at a time.
type phases struct {
	embed      embedPhase
	norm       normPhase
	round      roundPhase
	roundHeads roundHeadsPhase
	gather     gatherPhase
	linear     linearPhase
	mlaWrite   mlaWritePhase
	absorb     absorbPhase
	expand     expandPhase
	latent     latentPhase
	blocks     blocksPhase
	fold       foldPhase
	unabsorb   unabsorbPhase
	gqaWrite   gqaWritePhase
	gqa        gqaPhase
	indexWrite indexWritePhase
	score      scorePhase
	choose     choosePhase
	gate       gatePhase
	down       downPhase
	route      routePhase
	combine    combinePhase
	finalNorm  finalNormPhase
	logits     logitsPhase
	out        outPhase
	adjust     adjustPhase
}
