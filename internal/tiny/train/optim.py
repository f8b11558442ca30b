"""Muon for the matrices, Adam for the rest."""

import torch


def orthogonal(g, steps=5):
    """The nearest semi-orthogonal matrix by a quintic Newton-Schulz iteration; batched over leading axes."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.transpose(-2, -1)
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True).bfloat16() + 1e-7)
    for _ in range(steps):
        s = x @ x.transpose(-2, -1)
        x = a * x + (b * s + c * (s @ s)) @ x
    return (x.transpose(-2, -1) if tall else x).float()


class Muon:
    """Momentum, orthogonalised; steps of equal spectral size, scaled for the shape."""

    def __init__(self, params, decay=0.02):
        self.params = list(params)
        self.decay = decay
        self.state = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self, total, rank, workers, lr, momentum):
        """Each worker orthogonalises a part of the matrices; total sums a tensor over the workers."""
        groups = {}
        for p, m in zip(self.params, self.state):
            m.lerp_(p.grad, 1 - momentum)
            groups.setdefault(tuple(p.shape[-2:]), []).append((p, p.grad.lerp(m, momentum)))
        flats = []
        for (rows, cols), members in groups.items():
            flat = torch.cat([u.reshape(-1, rows, cols) for _, u in members])
            mine = slice(len(flat) * rank // workers, len(flat) * (rank + 1) // workers)
            part = orthogonal(flat[mine]) * max(1.0, rows / cols) ** 0.5 if mine.stop > mine.start else None
            flat.zero_()
            if part is not None:
                flat[mine] = part
            flats.append(flat)
        everything = torch.cat([f.flatten() for f in flats])
        total(everything)
        at = 0
        for (rows, cols), members in groups.items():
            for p, u in members:
                n = u.numel()
                p.mul_(1 - lr * self.decay)
                p.add_(everything[at : at + n].view(p.shape), alpha=-lr)
                at += n


class Adam:
    def __init__(self, params, betas=(0.9, 0.95), eps=1e-10):
        self.params = list(params)
        self.betas, self.eps, self.t = betas, eps, 0
        self.first = [torch.zeros_like(p) for p in self.params]
        self.second = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self, lr):
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.params, self.first, self.second):
            if p.grad is None:
                continue
            m.lerp_(p.grad, 1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            step = lr / (1 - b1**self.t)
            p.addcdiv_(m, (v / (1 - b2**self.t)).sqrt_().add_(self.eps), value=-step)
