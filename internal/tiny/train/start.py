"""Starting weights that can copy already.

A model this small, trained on a few million tokens, spends most of them on
finding the circuit that copies text: heads that look one and two tokens back,
and heads that look for an earlier place that followed the same one or two
tokens, and say what stood there. All of them are linear maps, so they can be
written down. seed_copying() does that over otherwise random weights: training
goes on from there and is free to change all of it.

    embedding    one constant coordinate (what a bias would be), the rest random;
                 all of one length, and clear of the subspaces used below
    layer 0      heads 0, 1 and 2 attend to the token one, two and three before by
                 their rope part, and write a code of it into subspaces of the stream
    two layers   head 0 looks for the present token, head 1 for the last two, head 2
                 for the last three; all write the token that followed there to
                 where the head of the model reads it
"""

import torch

PLAIN = 0.7  # size of an embedding's random coordinates
CONSTANT = 3.0  # the constant coordinate, relative to them
SHARP = 200.0  # of the heads that look back
MATCH = 2.2  # gain of queries and of keys of the heads that match
SAY = 0.25  # size of the head's rows
LAYERS = (1, 3)  # that match
TRUST = (0.1, 0.4, 0.8)  # in what heads 0, 1 and 2 found: the longer the match, the more
CODES = (32, 24, 16)  # dimensions of a token's code as seen one, two and three places later
WINDOWS = ((32,), (24, 24), (16, 16, 16))  # what heads 0, 1 and 2 match: code dimensions of the present token, the one before, ...


@torch.no_grad()
def seed_copying(model, seed=1):
    g = torch.Generator().manual_seed(seed)
    cfg, hidden = model.config, model.config.hidden_size
    nope, latent, value = cfg.qk_nope_head_dim, cfg.kv_lora_rank, cfg.v_head_dim
    head, say = nope + cfg.qk_rope_head_dim, latent - sum(CODES)

    basis = torch.zeros(hidden - 1, hidden)  # orthonormal, without the constant coordinate
    basis[:, 1:] = torch.linalg.qr(torch.randn(hidden - 1, hidden - 1, generator=g))[0]
    read, *back, see = basis.split([CODES[0], *CODES, hidden - 1 - CODES[0] - sum(CODES)])
    see = see[:say]
    free = hidden - sum(CODES)  # dimensions that embeddings use

    embed = model.model.embed_tokens.weight
    embed.copy_(torch.randn(embed.shape, generator=g))
    for taken in back:
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
    a.kv_a_proj_with_mqa.weight[: CODES[0]] = read
    a.kv_a_proj_with_mqa.weight[CODES[0] : CODES[0] + say] = see
    constant = CONSTANT * (hidden / (free - 1 + CONSTANT**2)) ** 0.5  # the constant coordinate after the norm
    a.kv_a_proj_with_mqa.weight[latent::2, 0] = SHARP**0.5 / constant
    a.q_a_proj.weight[-1] = 0
    a.q_a_proj.weight[-1, 0] = 1
    around = (a.q_a_proj.weight[:-1].pow(2).sum() + constant**2) / cfg.q_lora_rank
    fixed = constant / around**0.5  # that latent of the query after its norm
    theta = 1.0 / (cfg.rope_parameters["rope_theta"] ** (torch.arange(0, cfg.qk_rope_head_dim, 2).float() / cfg.qk_rope_head_dim))
    fast = theta > 0.05  # slow pairs can't tell neighbours apart
    for h, where in enumerate(back):
        query, key_value, out = _slices(a, h, head, nope + value, value)
        query[nope::2, -1] = ((h + 1) * theta).cos() * fast * SHARP**0.5 / fixed
        query[nope + 1 :: 2, -1] = -((h + 1) * theta).sin() * fast * SHARP**0.5 / fixed
        key_value[nope:, : len(where)] = torch.eye(value, len(where))
        out[:, : len(where)] = where.T

    # heads that match: latents of a query are the codes of the present token and the two before, those of a key
    # the codes of the three before and what to say
    for index in LAYERS:
        a = model.model.layers[index].self_attn
        asks, keys = torch.cat([read, *back[:2]]), torch.cat([*back, see])
        a.q_a_proj.weight[: len(asks)] = asks
        a.kv_a_proj_with_mqa.weight[:latent] = keys
        ask_at, key_at = (0, CODES[0], CODES[0] + CODES[0]), (0, CODES[0], CODES[0] + CODES[1])
        for h, window in enumerate(WINDOWS):
            query, key_value, out = _slices(a, h, head, nope + value, value)
            row = 0
            for n, (at, to) in zip(window, zip(ask_at, key_at)):
                query[torch.arange(row, row + n), torch.arange(at, at + n)] = MATCH
                key_value[torch.arange(row, row + n), torch.arange(to, to + n)] = MATCH
                row += n
            key_value[nope:, latent - say :] = torch.eye(value, say)
            out[:, :say] = (see @ turn).T * TRUST[h]


def _slices(a, h, head, key_value, value):
    """Zeroed parts of q_b_proj, kv_b_proj and o_proj that belong to head h."""
    parts = a.q_b_proj.weight[h * head : (h + 1) * head], a.kv_b_proj.weight[h * key_value : (h + 1) * key_value], a.o_proj.weight[:, h * value : (h + 1) * value]
    for p in parts:
        p.zero_()
    return parts
