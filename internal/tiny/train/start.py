"""Starting weights that can copy already.

A model this small, trained on a few million tokens, spends most of them on
finding the circuit that copies text: heads that look one and two tokens back,
and heads that look for an earlier place that followed the same one or two
tokens, and say what stood there. All of them are linear maps, so they can be
written down. seed_copying() does that over otherwise random weights: training
goes on from there and is free to change all of it.

    embedding    one constant coordinate (what a bias would be), the rest random;
                 all of one length, and clear of the subspaces used below
    layer 0      heads 0 and 1 attend to the token before by their rope part,
                 head 2 to the one before that; they write what they find into
                 subspaces of the residual stream
    two layers   heads 0 and 1 match the present token, heads 2 and 3 the present
                 and the previous one; all write the token they find to where the
                 head of the model reads it
"""

import torch

PLAIN = 0.7  # size of an embedding's random coordinates
CONSTANT = 3.0  # the constant coordinate, relative to them
SHARP = 90.0  # of the heads that look back
MATCH = 2.2  # gain of queries and of keys of the heads that match
SAY = 0.15  # size of the head's rows
LAYERS = (1, 3)  # that match


@torch.no_grad()
def seed_copying(model, seed=1):
    g = torch.Generator().manual_seed(seed)
    cfg, hidden = model.config, model.config.hidden_size
    nope, latent, value = cfg.qk_nope_head_dim, cfg.kv_lora_rank, cfg.v_head_dim
    head, half, pair = cfg.qk_nope_head_dim + cfg.qk_rope_head_dim, latent // 2, nope // 2

    basis = torch.zeros(hidden - 1, hidden)  # orthonormal, without the constant coordinate
    basis[:, 1:] = torch.linalg.qr(torch.randn(hidden - 1, hidden - 1, generator=g))[0]
    read, one_back, two_back, see = basis.split([latent, latent, half, hidden - 1 - 2 * latent - half])
    free = hidden - latent - half  # dimensions that embeddings use

    embed = model.model.embed_tokens.weight
    embed.copy_(torch.randn(embed.shape, generator=g))
    for taken in (one_back, two_back):
        embed -= embed @ taken.T @ taken
    embed[:, 0] = 0
    embed *= PLAIN * (free - 1) ** 0.5 / embed.norm(dim=1, keepdim=True)
    embed[:, 0] = CONSTANT * PLAIN
    turn = torch.zeros(hidden, hidden)  # the head reads tokens under this rotation
    turn[1:, 1:] = torch.linalg.qr(torch.randn(hidden - 1, hidden - 1, generator=g))[0]
    model.lm_head.weight.copy_(embed @ turn / PLAIN * SAY)

    # layer 0: heads that look back
    a = model.model.layers[0].self_attn
    a.kv_a_proj_with_mqa.weight.zero_()
    a.kv_a_proj_with_mqa.weight[:latent] = read
    constant = CONSTANT * (hidden / (free - 1 + CONSTANT**2)) ** 0.5  # the constant coordinate after the norm
    a.kv_a_proj_with_mqa.weight[latent::2, 0] = SHARP**0.5 / constant
    a.q_a_proj.weight[-1] = 0
    a.q_a_proj.weight[-1, 0] = 1
    around = (a.q_a_proj.weight[:-1].pow(2).sum() + constant**2) / cfg.q_lora_rank
    fixed = constant / around**0.5  # that latent of the query after its norm
    theta = 1.0 / (cfg.rope_parameters["rope_theta"] ** (torch.arange(0, cfg.qk_rope_head_dim, 2).float() / cfg.qk_rope_head_dim))
    fast = theta > 0.05  # slow pairs can't tell neighbours apart
    for h, back, what, where in ((0, 1, 0, one_back[:half]), (1, 1, half, one_back[half:]), (2, 2, 0, two_back)):
        query, key_value, out = _slices(a, h, head, nope + value, value)
        query[nope::2, -1] = (back * theta).cos() * fast * SHARP**0.5 / fixed
        query[nope + 1 :: 2, -1] = -(back * theta).sin() * fast * SHARP**0.5 / fixed
        key_value[nope:, what : what + half] = torch.eye(value, half)
        out.copy_(where.T)

    # heads that match: key latents are [one back, two back, what to say]
    for index in LAYERS:
        a = model.model.layers[index].self_attn
        a.q_a_proj.weight[:nope] = read[:nope]
        a.q_a_proj.weight[nope : 2 * nope] = one_back[:nope]
        a.kv_a_proj_with_mqa.weight[:nope] = one_back[:nope]
        a.kv_a_proj_with_mqa.weight[nope : 2 * nope] = two_back[:nope]
        a.kv_a_proj_with_mqa.weight[half:latent] = 0
        a.kv_a_proj_with_mqa.weight[half : half + len(see)] = see
        for h in range(4):
            query, key_value, out = _slices(a, h, head, nope + value, value)
            columns = torch.arange(nope) if h < 2 else torch.cat([torch.arange(pair), torch.arange(pair) + nope])
            query[torch.arange(nope), columns] = MATCH
            key_value[torch.arange(nope), columns] = MATCH
            key_value[nope:, half:latent] = torch.eye(value)
            out[:, : len(see)] = (see @ turn).T / 2


def _slices(a, h, head, key_value, value):
    """Zeroed parts of q_b_proj, kv_b_proj and o_proj that belong to head h."""
    parts = a.q_b_proj.weight[h * head : (h + 1) * head], a.kv_b_proj.weight[h * key_value : (h + 1) * key_value], a.o_proj.weight[:, h * value : (h + 1) * value]
    for p in parts:
        p.zero_()
    return parts
