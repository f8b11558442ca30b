"""Checks the committed goldens against formula.py, and that they can tell right from wrong.

    python verify.py [--faults] [--dir ../testdata] [--only name ...]

Without --faults: logits, selections and routes of every golden must come out of the formulas too.
With --faults: prints, for each known mistake and golden, the largest change in a logit, and fails if
some mistake changes no golden by 1e-3 or more.
"""

import argparse
import json
from pathlib import Path

import numpy
import torch

import formula

AGREE = 3e-5  # float32 reference against float64 formulas
VISIBLE = 1e-3


def array(data, at, kind):
    n = 1
    for s in at["shape"]:
        n *= s
    return torch.from_numpy(numpy.frombuffer(data, kind, n, at["offset"]).reshape(at["shape"]).copy())


class Golden:
    def __init__(self, folder, name):
        self.folder = folder / name
        self.h = json.loads((folder / f"{name}.golden.json").read_text())
        self.data = (folder / f"{name}.golden.bin").read_bytes()

    def model(self, fault=None):
        return formula.Model(self.folder, self.h["latent_eps"], fault)

    def prompts(self):
        for p in self.h["prompts"]:
            yield p, p["ids"] + p["greedy"][:-1], array(self.data, p["logits"], "<f4").double()


def agree(name, g):
    worst = 0.0
    model = g.model()
    for p, ids, want in g.prompts():
        logits, picked, routed = model.forward(ids)
        worst = max(worst, float((logits - want).abs().max()))
        for x in p["indexer"]:
            have = torch.where(picked[x["layer"]])[1]
            if not torch.equal(have.int(), array(g.data, x["selected"], "<i4")):
                raise SystemExit(f"{name}: layer {x['layer']} selects other keys than the formulas")
        for x in p["router"]:
            if not torch.equal(routed[x["layer"]].int(), array(g.data, x["experts"], "<i4")):
                raise SystemExit(f"{name}: layer {x['layer']} routes otherwise than the formulas")
    print(f"{name}: largest difference in a logit {worst:.2g}", flush=True)
    if worst > AGREE:
        raise SystemExit(f"{name}: too far from the formulas")


def faults(goldens):
    print("mistake".ljust(38) + "".join(n.rjust(11) for n in goldens))
    blind = []
    for fault in formula.FAULTS:
        cells = []
        for g in goldens.values():
            model = g.model(fault)
            cells.append(max(float((model.forward(ids)[0] - want).abs().max()) for _, ids, want in g.prompts()))
        print(fault.ljust(38) + "".join((f"{c:.1g}" if c > AGREE else "-").rjust(11) for c in cells), flush=True)
        if max(cells) < VISIBLE:
            blind.append(fault)
    if blind:
        raise SystemExit(f"no golden sees: {blind}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--dir", type=Path, default=Path(__file__).resolve().parent.parent / "testdata")
    p.add_argument("--only", nargs="*")
    p.add_argument("--faults", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(1)
    names = sorted(f.name.removesuffix(".golden.json") for f in a.dir.glob("*.golden.json"))
    goldens = {n: Golden(a.dir, n) for n in names if not a.only or n in a.only}
    if a.faults:
        faults(goldens)
        return
    for n, g in goldens.items():
        agree(n, g)


if __name__ == "__main__":
    main()
