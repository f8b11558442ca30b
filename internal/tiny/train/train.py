"""Trains the main model. Stops and resumes anywhere.

    python train.py DATA_DIR RUN_DIR [--workers N] [--stop-after MINUTES]

RUN_DIR/plan.json (written on the first start from PLAN, then read) lists the
phases; editing it between two starts changes what is still to come. A
checkpoint is saved every ten minutes, at the end of a phase, and on SIGTERM;
RUN_DIR/loss.csv is the loss curve. Each worker is one process with one thread
and its own batch; gradients are averaged before every step.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import fused
import loader
import model as modelling
import optim
import start

# kind: dense (all keys), index (indexer only, KL to dense attention), sparse
# (selected keys, indexer by KL on them). tokens: length of the phase. batch:
# tokens of one worker's batch. lr: factor on the base rates, from - to, linear.
PLAN = [
    {"name": "short", "kind": "dense", "tokens": 3e6, "batch": 2560, "lr": [1, 1], "text": 0.3,
     "mix": {"mini": 0.75, "copy": 0.17, "lib": 0.05, "ask": 0.03}},
    {"name": "tasks", "kind": "dense", "tokens": 6e6, "batch": 3072, "lr": [1, 0.4], "text": 0.2,
     "mix": {"mini": 0.44, "task": 0.38, "retry": 0.06, "copy": 0.06, "long": 0.02, "lib": 0.02, "ask": 0.02}},
    {"name": "index", "kind": "index", "tokens": 0.5e6, "batch": 4096, "lr": [1, 1], "text": 0,
     "mix": {"mini": 0.3, "task": 0.6, "long": 0.1}},
    {"name": "sparse", "kind": "sparse", "tokens": 2e6, "batch": 4096, "lr": [0.4, 0.02], "text": 0.1,
     "mix": {"mini": 0.15, "task": 0.64, "retry": 0.10, "copy": 0.02, "long": 0.05, "lib": 0.02, "ask": 0.02}},
    {"name": "again", "kind": "dense", "tokens": 4.5e6, "batch": 3072, "lr": [0.6, 0.3], "text": 0.1,
     "mix": {"mini": 0.35, "task": 0.5, "retry": 0.07, "copy": 0.02, "long": 0.04, "lib": 0.01, "ask": 0.01}},
    {"name": "last", "kind": "sparse", "tokens": 2.4e6, "batch": 4096, "lr": [0.3, 0.02], "text": 0.1,
     "mix": {"mini": 0.2, "task": 0.63, "retry": 0.08, "long": 0.06, "lib": 0.015, "ask": 0.015}},
]
MUON_LR, ADAM_LR, INDEX_LR, BIAS_STEP, SEED = 0.014, 3e-3, 2e-3, 2e-3, 20260
KL_EVERY = 4  # steps of the sparse phase per step of its indexers


class Trainer:
    def __init__(self, data, run, rank=0, workers=1):
        self.data, self.run, self.rank, self.workers = data, run, rank, workers
        plan = os.path.join(run, "plan.json")
        if not os.path.exists(plan):
            json.dump(PLAN, open(plan, "w"), indent=1)
        self.plan = json.load(open(plan))
        self.model = modelling.create(modelling.config(), SEED)
        start.seed_copying(self.model, SEED)
        named = dict(self.model.named_parameters())
        index = [n for n in named if ".indexer." in n]
        small = [n for n in named if n not in index and (named[n].dim() < 2 or "embed_tokens" in n or "lm_head" in n or "mlp.gate." in n)]
        large = [n for n in named if n not in index and n not in small]
        self.muon = optim.Muon(named[n] for n in large)
        self.adam = optim.Adam(named[n] for n in small)
        self.index_adam = optim.Adam(named[n] for n in index)
        self.gates = [l.mlp.gate for l in self.model.model.layers if hasattr(l.mlp, "gate")]
        self.at = {"phase": 0, "tokens": 0, "step": 0, "chunk": 0, "batch": 0, "total": 0, "seconds": 0.0}
        self.path = os.path.join(run, "state.pt")
        self.stop, self.loads = False, (0, 0)
        if os.path.exists(self.path):
            self.load()

    def load(self):
        state = torch.load(self.path, weights_only=False)
        self.model.load_state_dict(state["model"])
        self.at = state["at"]
        self.muon.state = state["muon"]
        for name in ("adam", "index_adam"):
            o = getattr(self, name)
            o.first, o.second, o.t = state[name]
        if self.rank == 0:
            print("resumed at", self.at, flush=True)

    def save(self):
        if self.rank:
            return
        state = {"model": self.model.state_dict(), "at": self.at, "muon": self.muon.state}
        for name in ("adam", "index_adam"):
            o = getattr(self, name)
            state[name] = (o.first, o.second, o.t)
        torch.save(state, self.path + ".new")
        os.replace(self.path + ".new", self.path)

    def backward(self, ids, weights, kind):
        """Leaves gradients; returns (loss, mean KL of the indexers, expert counts)."""
        loads, loss, kl = [], torch.zeros(()), torch.zeros(())
        if kind != "index":
            loss = fused.loss(self.model, ids, weights, kind == "sparse", loads)
            loss.backward()
        if kind == "index" or kind == "sparse" and self.at["step"] % KL_EVERY == 0:
            kls = []
            with torch.autocast("cpu", dtype=torch.bfloat16):
                modelling.forward(self.model, ids, kind == "sparse", None, kls)
            kl = sum(kls) / len(kls)
            kl.backward()
        counts = torch.stack([c for c, _ in loads]).float() if loads else torch.zeros(len(self.gates), self.gates[0].num_experts)
        return loss.item(), kl.item(), counts

    @torch.no_grad()
    def share(self, tokens, loss, kl, counts):
        """Averages gradients over the workers; returns the summed numbers."""
        extra = torch.cat([counts.flatten(), torch.tensor([float(tokens), loss / self.workers, kl / self.workers, float(self.stop)])])
        if self.workers > 1:
            grads = [p.grad for o in (self.muon, self.adam, self.index_adam) for p in o.params if p.grad is not None]
            flat = torch.cat([g.flatten() / self.workers for g in grads] + [extra])
            dist.all_reduce(flat)
            at = 0
            for g in grads:
                g.copy_(flat[at : at + g.numel()].view_as(g))
                at += g.numel()
            extra = flat[at:]
        self.stop = extra[-1].item() > 0
        return extra[:-4].view_as(counts), int(extra[-4].item()), extra[-3].item(), extra[-2].item()

    def sum(self, flat):
        if self.workers > 1:
            dist.all_reduce(flat)

    @torch.no_grad()
    def balance(self, counts):
        """Auxiliary-loss-free balancing: the selection bias follows the load."""
        share = counts / counts.sum(1, keepdim=True)
        self.loads = (share.min().item(), share.max().item())
        for gate, row in zip(self.gates, share):
            gate.e_score_correction_bias += BIAS_STEP * self.rate * torch.sign(row.mean() - row)

    def phase(self):
        """Runs the current phase to its end. False if it was stopped."""
        plan, at = self.plan[self.at["phase"]], self.at
        for o in (self.muon, self.adam):
            for p in o.params:
                p.requires_grad_(plan["kind"] != "index")
        batches = loader.Loader(self.data, plan["mix"], plan["batch"], SEED + at["phase"], plan["text"])
        saved = began = shown = time.time()
        losses, kls, done = [], [], 0
        for chunk, n, ids, weights in batches.batches(at["chunk"], at["batch"], self.rank, self.workers):
            if at["tokens"] >= plan["tokens"]:
                break
            a, b = plan["lr"]
            self.rate = a + (b - a) * min(1.0, at["tokens"] / plan["tokens"])
            warm = min(1.0, (at["step"] + 1) / 60)
            counts, tokens, loss, kl = self.share(ids.numel(), *self.backward(ids, weights, plan["kind"]))
            if plan["kind"] != "index":
                self.balance(counts)
                self.muon.step(self.sum, self.rank, self.workers, MUON_LR * self.rate * warm, 0.85 + 0.1 * min(1.0, at["step"] / 200))
                self.adam.step(ADAM_LR * self.rate * warm)
            if plan["kind"] != "dense":
                self.index_adam.step(INDEX_LR * self.rate)
            self.model.zero_grad(set_to_none=True)
            done += tokens
            at["tokens"] += tokens
            at["total"] += tokens
            at["step"] += 1
            at["chunk"], at["batch"] = chunk, n
            losses.append(loss)
            kls += [kl] if kl else []
            now = time.time()
            if now - shown > 30 or self.stop:
                self.log(plan, losses, kls, done, now - began)
                shown, losses, kls = now, [], []
            if now - saved > 600 or self.stop:
                at["seconds"] += now - saved
                saved = now
                self.save()
                if self.stop:
                    return False
        at["seconds"] += time.time() - saved
        self.log(plan, losses, kls, done, time.time() - began)
        at.update(phase=at["phase"] + 1, tokens=0, chunk=0, batch=0)
        self.save()
        if self.rank == 0:
            torch.save(self.model.state_dict(), os.path.join(self.run, f"after-{plan['name']}.pt"))
        return True

    def log(self, plan, losses, kls, done, seconds):
        if self.rank or not losses:
            return
        path = os.path.join(self.run, "loss.csv")
        fresh = not os.path.exists(path)
        with open(path, "a") as f:
            if fresh:
                f.write("step,tokens,phase,loss,kl,rate,least_load,largest_load,tokens_per_second\n")
            row = (f"{self.at['step']},{self.at['total']},{plan['name']},{sum(losses) / len(losses):.4f},{sum(kls) / max(1, len(kls)):.4f},"
                   f"{self.rate:.3f},{self.loads[0]:.3f},{self.loads[1]:.3f},{done / seconds:.0f}")
            f.write(row + "\n")
        print(row, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("run")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stop-after", type=float, default=0, help="minutes")
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--meet", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.run, exist_ok=True)
    others = []
    if args.workers > 1:
        if not args.rank:
            args.meet = tempfile.mktemp()
            for r in range(1, args.workers):
                others.append(subprocess.Popen([sys.executable, __file__, args.data, args.run, "--workers", str(args.workers), "--rank", str(r), "--meet", args.meet]))
        dist.init_process_group("gloo", init_method="file://" + args.meet, rank=args.rank, world_size=args.workers)
    if not fused.available():
        sys.exit("the training forward needs g++")
    trainer = Trainer(args.data, args.run, args.rank, args.workers)

    def stop(*unused):
        trainer.stop = True

    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(s, stop)
    if args.stop_after:
        signal.alarm(int(args.stop_after * 60))
    while trainer.at["phase"] < len(trainer.plan) and trainer.phase():
        pass
    if not args.rank:
        print("stopped at", trainer.at, flush=True)
    for o in others:
        o.wait()


if __name__ == "__main__":
    main()
