"""The model in PyTorch: Llama architecture with RoPE on interleaved pairs and a tied head."""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Config:
    vocab: int = 4096
    dim: int = 384
    layers: int = 8
    heads: int = 6
    kv_heads: int = 2
    ffn: int = 768
    context: int = 512
    rope_base: float = 10000.0
    epsilon: float = 1e-5

    @property
    def head_dim(self):
        return self.dim // self.heads


def rms_norm(x, weight, epsilon):
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + epsilon)
    return (y * weight).to(x.dtype)


def rotate(x, cos, sin):
    """x [batch, time, heads, head_dim], cos and sin [time, 1, head_dim / 2]; pairs (2i, 2i + 1)."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


class Block(nn.Module):
    def __init__(self, c, dropout):
        super().__init__()
        kv = c.kv_heads * c.head_dim
        self.c, self.dropout = c, dropout
        self.attn_norm = nn.Parameter(torch.ones(c.dim))
        self.attn_q = nn.Linear(c.dim, c.dim, bias=False)
        self.attn_k = nn.Linear(c.dim, kv, bias=False)
        self.attn_v = nn.Linear(c.dim, kv, bias=False)
        self.attn_output = nn.Linear(c.dim, c.dim, bias=False)
        self.ffn_norm = nn.Parameter(torch.ones(c.dim))
        self.ffn_gate = nn.Linear(c.dim, c.ffn, bias=False)
        self.ffn_up = nn.Linear(c.dim, c.ffn, bias=False)
        self.ffn_down = nn.Linear(c.ffn, c.dim, bias=False)

    def forward(self, x, cos, sin):
        c = self.c
        batch, time, _ = x.shape
        h = rms_norm(x, self.attn_norm, c.epsilon)
        q = rotate(self.attn_q(h).view(batch, time, c.heads, c.head_dim), cos, sin)
        k = rotate(self.attn_k(h).view(batch, time, c.kv_heads, c.head_dim), cos, sin)
        v = self.attn_v(h).view(batch, time, c.kv_heads, c.head_dim)
        group = c.heads // c.kv_heads
        k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                           v.transpose(1, 2), is_causal=True)
        y = self.attn_output(y.transpose(1, 2).reshape(batch, time, c.dim))
        x = x + F.dropout(y, self.dropout, self.training)
        h = rms_norm(x, self.ffn_norm, c.epsilon)
        y = self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))
        return x + F.dropout(y, self.dropout, self.training)


class Model(nn.Module):
    def __init__(self, c, dropout=0.0):
        super().__init__()
        self.c, self.dropout = c, dropout
        self.token_embd = nn.Embedding(c.vocab, c.dim)
        self.blk = nn.ModuleList(Block(c, dropout) for _ in range(c.layers))
        self.output_norm = nn.Parameter(torch.ones(c.dim))
        pair = torch.arange(c.head_dim // 2, dtype=torch.float64)
        angle = torch.outer(torch.arange(c.context, dtype=torch.float64),
                            c.rope_base ** (-2 * pair / c.head_dim))
        self.register_buffer("cos", angle.cos().float()[:, None], persistent=False)
        self.register_buffer("sin", angle.sin().float()[:, None], persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                deep = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * c.layers) if deep else 0.02)

    def forward(self, ids, targets=None):
        """Logits [batch, time, vocab], or with targets [batch, time] their mean cross-entropy."""
        time = ids.shape[1]
        cos, sin = self.cos[:time], self.sin[:time]
        x = F.dropout(self.token_embd(ids), self.dropout, self.training)
        for block in self.blk:
            x = block(x, cos, sin)
        logits = F.linear(rms_norm(x, self.output_norm, self.c.epsilon), self.token_embd.weight)
        if targets is None:
            return logits.float()
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
