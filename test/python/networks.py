# SPDX-License-Identifier: Apache-2.0
"""Networks of torch for the tests, with the data and the loss of each, and the same as a job of
Thalweg's own where there is one."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class Mlp(nn.Sequential):
    layers = ["linear 24", "relu", "linear 5"]

    def __init__(self):
        super().__init__(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 5))


class LeNet(nn.Module):
    layers = ["conv 6 5x5", "relu", "maxpool 2x2", "conv 8 5x5", "relu", "maxpool 2x2", "linear 32", "relu", "linear 5"]

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 8, 5)
        self.c, self.d = nn.Linear(8 * 4 * 4, 32), nn.Linear(32, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 2)
        x = F.max_pool2d(F.relu(self.b(x)), 2)
        return self.d(F.relu(self.c(x.flatten(1))))


class Transformer(nn.Module):
    """Next tokens; the embedding and the output are tied."""

    def __init__(self, tokens=17, width=16, length=10):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.place = nn.Parameter(torch.randn(length, width) * 0.1)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
                                    for _ in range(2))
        nn.init.normal_(self.embed.weight, std=0.2)
        self.out = nn.Linear(width, tokens, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        h = self.embed(x) + self.place
        for layer in self.layers:
            h = layer(h, src_mask=self.mask)
        return self.out(h).transpose(1, 2)


def problem(name, samples):
    """(make, x, y): every call of make gives the same initial weights."""
    g = torch.Generator().manual_seed(5)
    if name == "mlp":
        kind, x = Mlp, torch.randn(samples, 12, generator=g)
        y = (x @ torch.randn(12, 5, generator=g)).argmax(1)
    elif name == "lenet":
        kind, x = LeNet, torch.randn(samples, 1, 28, 28, generator=g)
        y = torch.randint(0, 5, (samples,), generator=g)
        x[:, 0, 10:18, 10:18] += y.view(-1, 1, 1) - 2.0
    else:
        kind = Transformer
        steps = torch.randint(1, 4, (samples, 1), generator=g)
        start = torch.randint(0, 17, (samples, 1), generator=g)
        every = (start + steps * torch.arange(11)) % 17
        x, y = every[:, :-1].contiguous(), every[:, 1:].contiguous()

    def make(seed=11):
        torch.manual_seed(seed)
        return kind()
    return make, x, y


def train(run, model, x, y, opt=None, each=None, **options):
    """The loop that people write."""
    opt = opt or run.optimizer()
    for xb, yb in run.loader((x, y), **options):
        opt.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        if each:
            each(xb, yb)
        opt.step(loss)
    return run


def apart(a, b):
    """The largest difference of two models' parameters."""
    return max((p.detach().cpu() - q.detach().cpu()).abs().max().item() for p, q in zip(a.parameters(), b.parameters()))
