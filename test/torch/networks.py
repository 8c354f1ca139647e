#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our networks with PyTorch: loss, gradients, running statistics, predictions.

    TW_BUILD=build /usr/bin/python3 test/torch/networks.py [NET ...]

Weights go both ways through safetensors files.  Before every step both sides load the same weights
and see the same batch; the step itself is PyTorch's.  Prints a line per network with the worst
figures, each beside its limit, and how far each side is from PyTorch in double.  Needs
python3-torch and a built tree; exits 77 (skipped) without torch.
"""
import copy
import math
import os
import subprocess
import sys
import tempfile
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    print("torch_networks: skipped: python3-torch is not installed (./setup --full installs it)", file=sys.stderr)
    sys.exit(77)

from safe import safe_read, safe_write

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTS = 100  # more than are evaluated at once, and no multiple of that


# --- what PyTorch does not have, or does elsewhere ------------------------------------------------

class Linear(nn.Linear):
    """Ours flattens what comes in."""

    def forward(self, x):
        return super().forward(x.flatten(1))


class Residual(nn.Module):
    def __init__(self, body, shortcut=()):
        super().__init__()
        self.body = nn.Sequential(*body)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class Local(nn.Module):
    """A convolution whose every place has weights of its own."""

    def __init__(self, channels, filters, size, height, width, pad):
        super().__init__()
        self.size, self.pad = size, pad
        self.out = height + 2 * pad - size + 1, width + 2 * pad - size + 1
        places = self.out[0] * self.out[1]
        self.weight = nn.Parameter(torch.zeros(places, filters, channels, size, size))
        self.bias = nn.Parameter(torch.zeros(places, filters))

    def forward(self, x):
        windows = F.unfold(x, self.size, padding=self.pad)
        y = torch.einsum("nkl,lfk->nfl", windows, self.weight.flatten(2)) + self.bias.t()
        return y.unflatten(2, self.out)


class Scale(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


class GlobalPool(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class Embedding(nn.Embedding):
    def forward(self, x):
        return super().forward(x.long())


class Positions(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(length, width))

    def forward(self, x):
        return x + self.weight


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


class LSTM(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


class GRU(nn.GRU):
    def forward(self, x):
        return super().forward(x)[0]


class Tied(nn.Module):
    """The product with the table of an embedding, which is a module elsewhere."""

    def __init__(self, table):
        super().__init__()
        self.table = [table]

    def forward(self, x):
        return F.linear(x, self.table[0].weight)


class RNN(nn.RNN):
    def forward(self, x):
        return super().forward(x)[0]


class Series(nn.Module):
    """Rows of a length and then all positions; the layers behind ask for the length."""
    length = None

    def __init__(self, width):
        super().__init__()
        self.width = width

    @staticmethod
    def hidden(x):
        return torch.arange(x.shape[1])[None] >= Series.length[:, None]

    def forward(self, x):
        Series.length = x[:, 0].long()
        x = x[:, 1:].reshape(len(x), -1, self.width)
        return x.masked_fill(self.hidden(x)[..., None], 0.0)


def packed(kind):
    """A recurrent layer on the positions that samples have."""
    class Packed(kind):
        def forward(self, x):
            y = nn.utils.rnn.pack_padded_sequence(x, Series.length, batch_first=True,
                                                  enforce_sorted=False)
            return nn.utils.rnn.pad_packed_sequence(super().forward(y)[0], batch_first=True,
                                                    total_length=x.shape[1])[0]
    return Packed


class Summary(nn.Module):
    """Sample by sample, so that nothing knows of padding."""

    def __init__(self, of):
        super().__init__()
        self.of = {"mean": lambda v: v.mean(0), "max": lambda v: v.amax(0), "last": lambda v: v[-1]}[of]

    def forward(self, x):
        return torch.stack([self.of(v[:n]) for v, n in zip(x, Series.length)])


class Conv1d(nn.Conv1d):
    def forward(self, x):
        if Series.length is not None:
            x = x.masked_fill(Series.hidden(x)[..., None], 0.0)
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class Sinusoidal(nn.Module):
    def forward(self, x):
        n = x.shape[2]
        rows = [[math.sin(t / 10000 ** (k / n)) if k % 2 == 0 else math.cos(t / 10000 ** ((k - 1) / n))
                 for k in range(n)] for t in range(x.shape[1])]
        return x + torch.tensor(rows, dtype=x.dtype)


class Rotary(nn.Module):
    """Pairs of features as complex numbers, which turn."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        b, t, n = x.shape
        x = x.view(b, t, 3, self.heads, 2, -1)
        half = x.shape[-1]
        angle = torch.outer(torch.arange(t).double(),
                            10000.0 ** (-torch.arange(half).double() / half))
        turn = torch.polar(torch.ones_like(angle), angle)[None, :, None, None]
        z = torch.complex(x[..., 0, :].double(), x[..., 1, :].double())
        z = torch.cat((z[:, :, :2] * turn, z[:, :, 2:]), 2)
        return torch.stack((z.real, z.imag), 4).to(x.dtype).reshape(b, t, n)


class Gated(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        n = x.shape[-1] // 2
        return self.function(x[..., :n]) * x[..., n:]


class Attention(nn.Module):
    """PyTorch's own attention, whose projections change nothing: in ours they are layers."""

    def __init__(self, heads, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, x):
        q, k, v = (part.transpose(0, 1) for part in x.chunk(3, -1))
        length, _, width = q.shape
        same, nothing = torch.eye(width, dtype=x.dtype), torch.zeros(3 * width, dtype=x.dtype)
        mask = torch.full((length, length), -math.inf, dtype=x.dtype).triu(1) if self.causal else None
        hidden = None if Series.length is None else Series.hidden(x)
        y, _ = F.multi_head_attention_forward(
            q, k, v, width, self.heads, None, nothing, None, None, False, 0.0, same,
            nothing[:width], key_padding_mask=hidden, need_weights=False, attn_mask=mask,
            use_separate_proj_weight=True,
            q_proj_weight=same, k_proj_weight=same, v_proj_weight=same)
        return y.transpose(0, 1)


# --- the networks ---------------------------------------------------------------------------------

def mlp():
    return [Linear(784, 512), nn.ReLU(), Linear(512, 512), nn.ReLU(), Linear(512, 10)]


def lenet():
    return [nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
            Linear(800, 500), nn.ReLU(), Linear(500, 10)]


def resnet20(activation):
    def convolve(a, b, size, stride):
        return [nn.Conv2d(a, b, size, stride, size // 2, bias=False), nn.BatchNorm2d(b)]

    layers, before = [*convolve(1, 16, 3, 1), activation()], 16
    for filters in (16, 32, 64):
        for _ in range(3):
            stride = 1 if filters == before else 2
            body = [*convolve(before, filters, 3, stride), activation(),
                    *convolve(filters, filters, 3, 1)]
            layers += [Residual(body, convolve(before, filters, 1, 2) if stride > 1 else ()),
                       activation()]
            before = filters
    return [*layers, GlobalPool(), Linear(64, 10)]


def vgg_small():
    layers, before = [], 1
    for k in range(4):
        filters = 8 << k // 2
        layers += [nn.Conv2d(before, filters, 3, padding=1, bias=False), nn.BatchNorm2d(filters),
                   nn.ReLU()]
        if k % 2:
            layers.append(nn.MaxPool2d(2))
        before = filters
    return [*layers, Linear(16 * 49, 64), nn.ReLU(), Linear(64, 10)]


SMOOTH = """{layers: [conv 8 5x3 stride 2 pad 1, gelu, conv 12 3x3 pad 1x2 groups 4,
  batchnorm momentum 0.3 epsilon 1e-3, sigmoid, avgpool 3x2 stride 2 pad 1,
  {residual: [local 12 3x3 pad 1, tanh, dropout 0]}, layernorm, scale 0.5,
  {residual: [conv 6 1x1 bias false], shortcut: [conv 6 3x3 pad 1 groups 2, gelu approximate tanh]},
  softmax, layernorm epsilon 1e-4, flatten, linear 33, batchnorm, gelu, linear 21 bias false,
  softmax, scale 3, linear 10]}"""


def smooth():
    return [nn.Conv2d(1, 8, (5, 3), 2, 1), nn.GELU(), nn.Conv2d(8, 12, 3, padding=(1, 2), groups=4),
            nn.BatchNorm2d(12, momentum=0.3, eps=1e-3), nn.Sigmoid(), nn.AvgPool2d((3, 2), 2, 1),
            Residual([Local(12, 12, 3, 7, 9, 1), nn.Tanh(), nn.Dropout(0.0)]),
            nn.LayerNorm([12, 7, 9]), Scale(0.5),
            Residual([nn.Conv2d(12, 6, 1, bias=False)],
                     [nn.Conv2d(12, 6, 3, padding=1, groups=2), nn.GELU(approximate="tanh")]),
            nn.Softmax(1), nn.LayerNorm([6, 7, 9], eps=1e-4), nn.Flatten(), Linear(378, 33),
            nn.BatchNorm1d(33), nn.GELU(), Linear(33, 21, bias=False), nn.Softmax(1), Scale(3),
            Linear(21, 10)]


BENT = """{layers: [conv 16 3x3 stride 2, groupnorm 4, silu, conv 6 3x3 pad 1, elu 0.7,
  groupnorm 6 epsilon 1e-3, prelu by channel, avgpool 2, {residual: [conv 6 1x1, softplus 2]},
  prelu 0.1, linear 30, groupnorm 5, softplus, linear 21, elu, groupnorm 1, silu, linear 12,
  prelu by channel, linear 10]}"""


def bent():
    return [nn.Conv2d(1, 16, 3, 2), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 6, 3, padding=1),
            nn.ELU(0.7), nn.GroupNorm(6, 6, eps=1e-3), nn.PReLU(6), nn.AvgPool2d(2),
            Residual([nn.Conv2d(6, 6, 1), nn.Softplus(2)]), nn.PReLU(1, 0.1), Linear(216, 30),
            nn.GroupNorm(5, 30), nn.Softplus(), Linear(30, 21), nn.ELU(), nn.GroupNorm(1, 21),
            nn.SiLU(), Linear(21, 12), nn.PReLU(12), Linear(12, 10)]


KINKED = """{layers: [conv 16 3x3, leaky-relu, maxpool 3x3 stride 2 pad 1, local 5 3x3, relu,
  avgpool 2, {residual: [conv 5 3x3 pad 1, relu]}, relu, maxpool 2x1, linear 40, leaky-relu 0.2,
  linear 10]}"""


def kinked():
    return [nn.Conv2d(1, 16, 3), nn.LeakyReLU(0.01), nn.MaxPool2d(3, 2, 1),
            Local(16, 5, 3, 13, 13, 0), nn.ReLU(), nn.AvgPool2d(2),
            Residual([nn.Conv2d(5, 5, 3, padding=1), nn.ReLU()]), nn.ReLU(), nn.MaxPool2d((2, 1)),
            Linear(50, 40), nn.LeakyReLU(0.2), Linear(40, 10)]


LENGTH = 24  # of a sample of a text


def gpt(layers, heads, width):
    def half(*middle):
        return Residual([nn.LayerNorm(width), *middle])

    blocks = []
    for _ in range(layers):
        blocks += [half(nn.Linear(width, 3 * width), Attention(heads), nn.Linear(width, width)),
                   half(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))]
    return [Embedding(256, width), Positions(LENGTH, width), *blocks, nn.LayerNorm(width),
            nn.Linear(width, 256)]


def tied(layers):
    layers[-1] = Tied(layers[0])
    return layers


SEQUENCE = """{layers: [embedding 256 24, positions, rmsnorm, linear 36, attention 3 none,
  {residual: [layernorm epsilon 1e-3, linear 20, silu, linear 12 bias false]}, scale 2, linear 18,
  attention 1, tanh, linear 256]}"""


def sequence():
    return [Embedding(256, 24), Positions(LENGTH, 24), RMSNorm(24), nn.Linear(24, 36),
            Attention(3, causal=False),
            Residual([nn.LayerNorm(12, eps=1e-3), nn.Linear(12, 20), nn.SiLU(),
                      nn.Linear(20, 12, bias=False)]), Scale(2), nn.Linear(12, 18), Attention(1),
            nn.Tanh(), nn.Linear(6, 256)]


def recurrent(kind):
    return [Embedding(256, 20), kind(20, 33, batch_first=True), kind(33, 24, batch_first=True),
            nn.Linear(24, 256)]


def both_ways(kind):
    return [Embedding(256, 20), kind(20, 17, batch_first=True, bidirectional=True),
            kind(34, 12, batch_first=True, bidirectional=True), nn.Linear(24, 256)]


GATES = """{layers: [embedding 256 24, sinusoidal,
  {residual: [rmsnorm, linear 72, rotary 2, attention 2, linear 24]},
  {residual: [layernorm, linear 40, swiglu, linear 24]}, conv1d 20 3 pad 1, linear 30, geglu,
  conv1d 16 3 pad 1 bias false, linear 18, glu, rnn 11 both, rnn 9, linear 256]}"""


def gates():
    return [Embedding(256, 24), Sinusoidal(),
            Residual([RMSNorm(24), nn.Linear(24, 72), Rotary(2), Attention(2), nn.Linear(24, 24)]),
            Residual([nn.LayerNorm(24), nn.Linear(24, 40), Gated(F.silu), nn.Linear(20, 24)]),
            Conv1d(24, 20, 3, padding=1), nn.Linear(20, 30), Gated(F.gelu),
            Conv1d(15, 16, 3, padding=1, bias=False), nn.Linear(16, 18), nn.GLU(),
            RNN(9, 11, batch_first=True, bidirectional=True), RNN(22, 9, batch_first=True),
            nn.Linear(9, 256)]


LONGEST, FEATURES = 14, 3


def series(model):
    """Rows of series: a length, 1 to LONGEST, and all positions; what is behind the length is
    large, so that nobody looks at it unpunished."""
    def write(folder):
        rng = np.random.default_rng(9)
        x = rng.normal(size=(300 + TESTS, LONGEST, FEATURES))
        length = rng.integers(1, LONGEST + 1, len(x))
        y = np.array([int(v[:n, 0].sum() > 0) + int(v[n - 1, 1] > 0) for v, n in zip(x, length)])
        x[np.arange(LONGEST)[None] >= length[:, None]] = 1e3
        rows = np.concatenate((length[:, None], x.reshape(len(x), -1)), 1)
        for name, a in (("x", rows[:300]), ("test_x", rows[300:])):
            np.save(os.path.join(folder, name + ".npy"), a.astype(np.float32))
        for name, a in (("y", y[:300]), ("test_y", y[300:])):
            np.save(os.path.join(folder, name + ".npy"), a.astype(np.int64))
        return ("data: {source: npy, x: x.npy, y: y.npy, test_x: test_x.npy, test_y: test_y.npy, "
                f"batch: 25, normalise: none}}\nmodel: {model}\n")
    return write


PADDED_BOTH = """{layers: [series 3, lstm 13 both, gru 11 both, linear 24, attention 2 none,
  conv1d 9 3 pad 1, rnn 7 both, summary mean, linear 3]}"""


def padded_both():
    return [Series(3), packed(nn.LSTM)(3, 13, batch_first=True, bidirectional=True),
            packed(nn.GRU)(26, 11, batch_first=True, bidirectional=True), nn.Linear(22, 24),
            Attention(2, causal=False), Conv1d(8, 9, 3, padding=1),
            packed(nn.RNN)(9, 7, batch_first=True, bidirectional=True), Summary("mean"),
            nn.Linear(14, 3)]


PADDED_CAUSAL = """{layers: [series 3, linear 12, positions,
  {residual: [layernorm, linear 36, rotary 2, attention 2, linear 12]},
  {residual: [layernorm, linear 40, geglu, linear 12]}, gru 10, summary last, linear 3]}"""


def padded_causal():
    return [Series(3), nn.Linear(3, 12), Positions(LONGEST, 12),
            Residual([nn.LayerNorm(12), nn.Linear(12, 36), Rotary(2), Attention(2), nn.Linear(12, 12)]),
            Residual([nn.LayerNorm(12), nn.Linear(12, 40), Gated(F.gelu), nn.Linear(20, 12)]),
            packed(nn.GRU)(12, 10, batch_first=True), Summary("last"), nn.Linear(10, 3)]


def table(outputs):
    return [Linear(13, 24), nn.Tanh(), Linear(24, outputs)]


def tokens(smoothing=0.0):
    return lambda y, b: F.cross_entropy(y.flatten(0, 1), b["label"].flatten().long(),
                                        label_smoothing=smoothing)


def entropy(smoothing=0.0):
    return lambda y, b: F.cross_entropy(y, b["label"].long(), label_smoothing=smoothing)


def binary(y, b):
    target = b["target"] if "target" in b else b["label"].to(y.dtype).unsqueeze(1)
    return F.binary_cross_entropy_with_logits(y, target)


def digits(batch, model, loss="cross-entropy", more=""):
    count = 12 * batch  # so the steps reach the second epoch
    return (f"data: {{source: digits, count: {count}, tests: {TESTS}, batch: {batch}{more}}}\n"
            f"model: {model}\nloss: {loss}\n")


def text(batch, model, loss="cross-entropy"):
    def write(folder):
        rng = np.random.default_rng(5)
        words = ["the", "whale", "sea", "a", "of", "and\n", "ship,", "white"]
        letters = " ".join(rng.choice(words, 12 * LENGTH * batch)).encode()
        samples = 12 * batch + TESTS
        with open(os.path.join(folder, "text.txt"), "wb") as f:
            f.write(letters[:samples * LENGTH + 1])
        return (f"data: {{source: text, file: text.txt, length: {LENGTH}, batch: {batch}, "
                f"test: {TESTS / samples}}}\nmodel: {model}\nloss: {loss}\n")
    return write


def arrays(y, loss, outputs):
    """A job on NumPy arrays of 13 columns; `y` says which values are to be predicted."""
    def write(folder):
        rng = np.random.default_rng(7)
        x = rng.normal(size=(400, 13)).astype(np.float32)
        np.save(os.path.join(folder, "x.npy"), x)
        np.save(os.path.join(folder, f"{y}.npy"), {
            "values": lambda: (x[:, :3] * 2 + rng.normal(size=(400, 3))).astype(np.float32),
            "shares": lambda: (1 / (1 + np.exp(-2 * x[:, :5]))).astype(np.float32),
            "signs": lambda: (x[:, 0] > x[:, 1]).astype(np.int64),
        }[y]())
        plain = ", normalise_targets: none" if y == "values" else ""
        return (f"data: {{source: npy, x: x.npy, y: {y}.npy, test: 0.25, batch: 25{plain}}}\n"
                f"model: {{layers: [linear 24, tanh, linear {outputs}]}}\nloss: {loss}\n")
    return write


class Net:
    """`gradient` bounds every step and `median` the median step; `rough` are nets with kinks, where
    one activation that flips changes the gradient, so single tensors are not looked at."""

    def __init__(self, job, batch, layers, loss, gradient=1e-5, median=1e-5, rate=0.05, steps=20,
                 stir=0.0, rough=False):
        self.job, self.batch, self.layers, self.loss = job, batch, layers, loss
        self.gradient, self.median, self.rate, self.steps = gradient, median, rate, steps
        self.stir, self.rough = stir, rough


NETS = {
    "mlp": Net(digits(64, "{name: mlp, hidden: [512, 512]}"), 64, mlp, entropy(), rough=True),
    "lenet": Net(digits(64, "lenet"), 64, lenet, entropy(), gradient=2e-2, rough=True),
    "resnet20-tanh": Net(digits(32, "{name: resnet20, activation: tanh, pool: average}"), 32,
                         lambda: resnet20(nn.Tanh), entropy()),
    "resnet20-relu": Net(digits(32, "resnet20"), 32, lambda: resnet20(nn.ReLU), entropy(),
                         gradient=2e-2, median=1e-3, rough=True),
    "vgg-small": Net(digits(16, "{name: vgg-small, width: 8, hidden: 64, batchnorm: true}"), 16,
                     vgg_small, entropy(), gradient=2e-2, rough=True, stir=0.05),
    "smooth": Net(digits(17, SMOOTH, "{name: cross-entropy, smoothing: 0.1}"), 17, smooth,
                  entropy(0.1), stir=0.1),
    "bent": Net(digits(17, BENT), 17, bent, entropy(), gradient=1e-3, stir=0.05, rough=True),
    "kinked": Net(digits(17, KINKED, more=", shift: 2, noise: 0.1, prefetch: 2"), 17, kinked,
                  entropy(), gradient=1e-3, stir=0.05, rough=True),
    "mean-squared": Net(arrays("values", "mean-squared", 3), 25, lambda: table(3),
                        lambda y, b: F.mse_loss(y, b["target"]), stir=0.1),
    "binary-shares": Net(arrays("shares", "binary-cross-entropy", 5), 25, lambda: table(5), binary,
                         rate=0.5, stir=0.1),
    "binary-labels": Net(arrays("signs", "binary-cross-entropy", 1), 25, lambda: table(1), binary,
                         stir=0.1),
    "gpt": Net(text(13, "{name: gpt, layers: 2, heads: 4, width: 32}"), 13, lambda: gpt(2, 4, 32),
               tokens(), stir=0.05),
    "gpt-tied": Net(text(13, "{name: gpt, layers: 2, heads: 4, width: 32, tied: true}"), 13,
                    lambda: tied(gpt(2, 4, 32)), tokens(), stir=0.05),
    "lstm": Net(text(11, "{layers: [embedding 256 20, lstm 33, lstm 24, linear 256]}"), 11,
                lambda: recurrent(LSTM), tokens(), stir=0.1),
    "gru": Net(text(11, "{layers: [embedding 256 20, gru 33, gru 24, linear 256]}"), 11,
               lambda: recurrent(GRU), tokens(), stir=0.1),
    "lstm-both": Net(text(11, "{layers: [embedding 256 20, lstm 17 both, lstm 12 both, linear 256]}"),
                     11, lambda: both_ways(LSTM), tokens(), stir=0.1),
    "gru-both": Net(text(11, "{layers: [embedding 256 20, gru 17 both, gru 12 both, linear 256]}"),
                    11, lambda: both_ways(GRU), tokens(), stir=0.1),
    "gates": Net(text(9, GATES), 9, gates, tokens(), stir=0.1),
    "padded-both": Net(series(PADDED_BOTH), 25, padded_both, entropy(), stir=0.2, rate=0.2, steps=40),
    "padded-causal": Net(series(PADDED_CAUSAL), 25, padded_causal, entropy(), stir=0.1),
    "sequence": Net(text(9, SEQUENCE, "{name: cross-entropy, smoothing: 0.1}"), 9, sequence,
                    tokens(0.1), stir=0.1),
    "autoencoder": Net(digits(33, "{name: autoencoder, hidden: [64, 16], activation: sigmoid}",
                              "mean-squared"), 33,
                       lambda: [Linear(784, 64), nn.Sigmoid(), Linear(64, 16), nn.Sigmoid(),
                                Linear(16, 64), nn.Sigmoid(), Linear(64, 784)],
                       lambda y, b: F.mse_loss(y, b["x"].flatten(1)), stir=0.1),
}


# --- both sides -----------------------------------------------------------------------------------

class Ours:
    def __init__(self, build, folder, job):
        self.folder = folder
        path = os.path.join(folder, "job.yaml")
        with open(path, "w") as f:
            f.write(job(folder) if callable(job) else job)
        self.child = subprocess.Popen([os.path.join(build, "test/network_probe"), path], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request, weights=None):
        names = [os.path.join(self.folder, n) for n in ("weights", "out")]
        if weights:
            safe_write(names[0], weights)
        self.child.stdin.write(" ".join([request, *(names if weights else names[1:])]) + "\n")
        self.child.stdin.flush()
        if self.child.stdout.readline() != "done\n":
            raise SystemExit(f"torch_networks: the probe stopped at '{request}'")
        return safe_read(names[1])

    def close(self):
        self.child.stdin.close()
        if self.child.wait() != 0:
            raise SystemExit("torch_networks: the probe failed at its end")


def load(net, weights):
    state = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    assert {k: tuple(v.shape) for k, v in state.items()} == \
        {k: v.shape for k, v in weights.items()}, "other tensors than PyTorch's"
    with torch.no_grad():
        for k, v in state.items():
            v.copy_(torch.from_numpy(weights[k]))


def batch_of(answer, double):
    out = {k: torch.from_numpy(answer[k]) for k in ("x", "label", "target") if k in answer}
    return {k: v.double() if double and v.is_floating_point() else v for k, v in out.items()}


def theirs(net, loss, weights, answer, double=False):
    """Loss, gradients by name, buffers' changes by name."""
    load(net, weights)
    net.train()
    net.zero_grad()
    b = batch_of(answer, double)
    value = loss(net(b["x"]), b)
    value.backward()
    after = {k: v.numpy().astype(np.float64) for k, v in net.named_buffers()
             if not k.endswith("num_batches_tracked")}
    return (value.item(), {k: p.grad.numpy().copy() for k, p in net.named_parameters()},
            {k: v - weights[k] for k, v in after.items()})


def predict(net, loss, weights, answer, double=False):
    load(net, weights)
    net.eval()
    b = batch_of(answer, double)
    with torch.no_grad():
        y = net(b["x"])
        right = -1 if "label" not in b else \
            (y.argmax(2) == b["label"]).sum().item() / y.shape[1] if y.dim() == 3 else (y.argmax(1) == b["label"]).sum().item() \
            if y.shape[1] > 1 else ((y[:, 0] > 0) == b["label"]).sum().item()
        return y.numpy(), loss(y, b).item(), right


def apart(a, b):
    """|a - b| / |b| over all tensors together."""
    square = sum(np.sum((a[k].astype(np.float64) - b[k]) ** 2) for k in b)
    return float(np.sqrt(square / sum(np.sum(b[k].astype(np.float64) ** 2) for k in b)))


def worst_tensor(a, b):
    """As apart for the worst single tensor; one that hardly counts is measured by the whole (a bias
    before a batch norm has a gradient of 0 and rounding)."""
    whole = np.sqrt(sum(np.sum(v.astype(np.float64) ** 2) for v in b.values()))
    return max((float(np.linalg.norm((a[k].astype(np.float64) - b[k]).ravel()) /
                      max(np.linalg.norm(b[k].ravel()), 1e-2 * whole)), k) for k in b)


def start(ours, stir):
    weights = ours.ask("weights")
    rng = np.random.default_rng(3)
    for k, v in weights.items():
        by = rng.normal(scale=stir, size=v.shape) if stir else np.zeros(v.shape)
        weights[k] = (v + (abs(by) if k.endswith("running_var") else by)).astype(np.float32)
    return weights


def compare(spec, ours):
    """Figures by name: (worst value, limit), and how far both are from PyTorch in double."""
    net = nn.Sequential(*spec.layers())
    exact = copy.deepcopy(net).double()  # a tied layer's table is copied with its module
    weights = start(ours, spec.stir)
    seen = {k: [] for k in ("loss", "gradient", "tensor", "buffers", "value", "64", "buffers64")}
    for step in range(spec.steps):
        answer = ours.ask(f"gradient {step * spec.batch} {spec.batch}", weights)
        value, gradient, change = theirs(net, spec.loss, weights, answer)
        seen["value"].append(value)
        seen["loss"].append(abs(float(answer["loss"]) - value) / abs(value))
        seen["gradient"].append(apart(answer, gradient))
        seen["tensor"].append(worst_tensor(answer, gradient))
        if change:
            seen["buffers"].append(apart(answer, change))
        if step % 5 == 4:
            _, truth, moved = theirs(exact, spec.loss, weights, answer, double=True)
            seen["64"].append((apart(answer, truth), apart(gradient, truth)))
            if change:
                seen["buffers64"].append((apart(answer, moved), apart(change, moved)))
        for k, g in gradient.items():
            weights[k] = weights[k] - np.float32(spec.rate) * g
        for k, c in change.items():
            weights[k] = (weights[k] + c).astype(np.float32)

    answer = ours.ask(f"evaluate 0 {TESTS}", weights)
    y, value, right = predict(net, spec.loss, weights, answer)
    if answer["correct"] >= 0 and not math.isclose(right, answer["correct"], rel_tol=1e-12):
        raise SystemExit(f"torch_networks: {right} are right, but ours says {answer['correct']}")
    figures = {
        "loss": (max(seen["loss"]), 1e-5),
        "gradient": (max(seen["gradient"]), spec.gradient),
        "median": (float(np.median(seen["gradient"])), spec.median),
        "tensor": (max(seen["tensor"])[0], math.inf if spec.rough else 1e-4),
        "prediction": (apart(answer, {"prediction": y}), 1e-5),
        "test loss": (abs(float(answer["loss"]) - value) / abs(value), 1e-5),
        # steps that change nothing would compare the same point twenty times
        "fall": (seen["value"][-1] / seen["value"][0], 0.999),
    }
    remark = "from double: gradient %.1e, PyTorch's %.1e" % tuple(np.max(seen["64"], axis=0))
    if seen["buffers"]:
        figures["statistics"] = (max(seen["buffers"]), 1e-5)
        remark += "; statistics %.1e, PyTorch's %.1e" % tuple(np.max(seen["buffers64"], axis=0))
    return figures, remark


def main():
    build = os.path.abspath(os.environ.get("TW_BUILD", os.path.join(ROOT, "build")))
    torch.set_num_threads(1)
    failed = 0
    for name in sys.argv[1:] or NETS:
        began = time.monotonic()
        Series.length = None
        with tempfile.TemporaryDirectory() as folder:
            ours = Ours(build, folder, NETS[name].job)
            figures, remark = compare(NETS[name], ours)
            ours.close()
        bad = [k for k, (v, limit) in figures.items() if not v <= limit]
        failed += bool(bad)
        shown = "  ".join(f"{k} {v:.1e}" + (f" <= {limit:g}" if limit < math.inf else "")
                          for k, (v, limit) in figures.items())
        print(f"{name:14} {'FAILED: ' + ', '.join(bad) if bad else 'ok'}  {shown}  ({remark}; "
              f"{time.monotonic() - began:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
