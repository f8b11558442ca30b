"""What a golden must satisfy before it is written; a seed that fails is skipped.

A golden is a fair judge only if a correct implementation in other arithmetic cannot differ from it
in a choice: so no choice may hang on less than MIN_GAP, except exact ties that are zero by the
ReLU (whose order the tie rule fixes), and float32 noise must be far below the tolerance in logits.
"""

import torch

MIN_TOP2 = 1e-3  # between the two best logits at a greedy step
MIN_GAP = 1e-5  # at an indexer or router boundary, and between experts in order
MAX_NOISE = 2e-5  # between the reference in float32 and in float64, in any logit
MIN_DISTINCT = 16  # different ids in a greedy continuation of 64


class Rejected(Exception):
    pass


def top2(logits, first):
    """Smallest distance of the two best logits over rows first.. (the greedy steps)."""
    best = logits[first:].topk(2, dim=-1).values
    gap = float((best[:, 0] - best[:, 1]).min())
    if gap < MIN_TOP2:
        raise Rejected(f"greedy gap {gap:.2g}")
    return gap


def indexer(trace, topk):
    """(smallest boundary gap, rows whose boundary is an exact tie at zero)."""
    smallest, tied = float("inf"), 0
    for layer, scores in trace.index_scores.items():
        for s in range(topk, scores.shape[0]):
            seen = scores[s, : s + 1] + 0.0
            order = torch.sort(seen, descending=True, stable=True).values
            last, first_out = float(order[topk - 1]), float(order[topk])
            if last != first_out:
                smallest = min(smallest, last - first_out)
                continue
            if last != 0:
                raise Rejected(f"layer {layer} row {s}: tie at {last}, not at zero")
            tied += 1
            others = seen[seen != 0].abs()
            if others.numel():
                smallest = min(smallest, float(others.min()))
            # Zero must be zero in any arithmetic: no head may sit right below its ReLU.
            edge = float(trace.index_heads[layer][s, : s + 1][seen == 0].max())
            if edge > -MIN_GAP:
                raise Rejected(f"layer {layer} row {s}: a zero score hangs on {edge:.2g}")
    if smallest < MIN_GAP:
        raise Rejected(f"indexer gap {smallest:.2g}")
    return smallest, tied


def router(trace):
    """Smallest gap between neighbours among the chosen experts and the first one not chosen."""
    smallest = float("inf")
    for layer, choice in trace.choice.items():
        k = trace.experts[layer].shape[1]
        order = torch.sort(choice, dim=-1, descending=True).values[:, : k + 1]
        smallest = min(smallest, float((order[:, :-1] - order[:, 1:]).min()))
    if smallest < MIN_GAP:
        raise Rejected(f"router gap {smallest:.2g}")
    return smallest


def noise(single, double):
    """Largest |float32 - float64| in a logit; every choice must be the same in both."""
    for layer in single.selected:
        if not torch.equal(visible(single.selected[layer]), visible(double.selected[layer])):
            raise Rejected(f"layer {layer}: float64 selects other keys")
    for layer in single.experts:
        if not torch.equal(single.experts[layer], double.experts[layer]):
            raise Rejected(f"layer {layer}: float64 routes differently")
    worst = float((single.logits.double() - double.logits).abs().max())
    if worst > MAX_NOISE:
        raise Rejected(f"float32 noise {worst:.2g}")
    return worst


def visible(selected):
    """Selections of each row in ascending order; future keys, picked when few are visible, become -1."""
    rows = torch.arange(selected.shape[0])[:, None]
    return torch.where(selected <= rows, selected, -1).sort(dim=-1).values
