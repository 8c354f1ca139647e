# SPDX-License-Identifier: Apache-2.0
# torch_bench.py - the same nets in PyTorch, run by `thalweg bench` as a child beside it.
#
# One JSON object per line each way.  The first line says what runs here, or {"error": ...}.
#   {"do": "make", "net": "mlp", "zoo": "mlp", "hidden": [512, 512], "shape": [784], "batch": 64}
#   {"do": "make", "net": "sum", "floats": 14600000}
#   {"do": "run", "net": "mlp", "steps": 50}
# Arguments: the instruction set that it keeps to (plain, avx2, or all), then nothing, or "ddp RANK SIZE
# FOLDER": one of SIZE processes under DistributedDataParallel.
import ctypes
import json
import os
import re
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
sys.path = [p for p in sys.path if p]  # not what lies in the folder we were started in

# PyTorch's own kernels, oneDNN in it, MKL, and OpenBLAS, which knows instruction sets by cores that
# have them.
PINS = {"avx2": ("avx2", "AVX2", "AVX2", "Haswell"),
        "plain": ("default", "SSE41", "SSE4_2", "Nehalem")}
for name, value in zip(("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
                        "OPENBLAS_CORETYPE"), PINS.get(sys.argv[1], ())):
    os.environ[name] = value


def say(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except Exception as e:  # a broken installation fails in many ways
    say(error="%s: %s" % (type(e).__name__, str(e)[:200]))
    sys.exit(1)
torch.set_num_threads(1)
torch.manual_seed(1)

KINDS = ("openblas", "mkl", "blis", "atlas")


def blas():
    """Which BLAS is loaded: (kind, path)."""
    torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    try:
        with open("/proc/self/maps") as f:
            paths = sorted({line.split()[-1] for line in f if ".so" in line})
    except OSError:
        paths = []
    for path in paths:
        if re.search(r"/libblas\.so", path):
            return next((k for k in KINDS if k in path), "reference"), path
    for path in paths:
        for kind in KINDS:
            if re.search(r"/lib%s[^/]*\.so" % kind, path):
                return kind, path
    return ("mkl" if torch.backends.mkl.is_available() else "unknown"), ""


def blas_core(path):
    """Whose kernels OpenBLAS uses; another BLAS does not tell."""
    try:
        name = ctypes.CDLL(path).openblas_get_corename
        name.restype = ctypes.c_char_p
        return name().decode()
    except (OSError, AttributeError):
        return ""


def capability():
    """Which instruction set PyTorch's own kernels use."""
    said = re.search(r"CPU capability usage: (\S+)", torch.__config__.show())
    return said.group(1) if said else "unknown"


def mlp(inputs, hidden):
    sizes = [inputs] + [int(h) for h in hidden]
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


class Block(nn.Module):
    def __init__(self, before, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, filters, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(before, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for filters in (16, 32, 64):
        for k in range(3):
            layers.append(Block(before, filters, 2 if k == 0 and filters > 16 else 1))
            before = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Attention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.ones(length, length).triu(1).bool())

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.into(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-2, -1)) * (w // self.heads) ** -0.5
        y = s.masked_fill(self.mask, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Gpt(nn.Module):
    """As ours is without options: 4 blocks, 4 heads, width 128."""

    def __init__(self, length, layers=4, heads=4, width=128):
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.attention = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), Attention(width, heads, length))
                                       for _ in range(layers))
        self.hidden = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width),
                                                  nn.GELU(), nn.Linear(4 * width, width))
                                    for _ in range(layers))
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, x):
        x = self.embedding(x) + self.positions
        for attention, hidden in zip(self.attention, self.hidden):
            x = x + attention(x)
            x = x + hidden(x)
        return self.out(x).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self, kind, features, width):
        super().__init__()
        self.embedding = nn.Embedding(256, features)
        self.layer = kind(features, width, batch_first=True)
        self.out = nn.Linear(width, 256)

    def forward(self, x):
        return self.out(self.layer(self.embedding(x))[0]).flatten(0, 1)


RECURRENT = {"char-lstm": (nn.LSTM, 128, 128), "lstm": (nn.LSTM, 64, 256), "gru": (nn.GRU, 64, 256)}


class Net:
    def __init__(self, ask, wrap):
        batch, shape = ask["batch"], ask["shape"]
        if ask["zoo"] == "mlp":
            model = mlp(shape[0], ask["hidden"])
        elif ask["zoo"] == "gpt":
            model = Gpt(shape[0])
        elif ask["zoo"] in RECURRENT:
            model = Recurrent(*RECURRENT[ask["zoo"]])
        else:
            model = {"lenet": lenet, "resnet20": resnet20}[ask["zoo"]]()
        self.parameters = sum(p.numel() for p in model.parameters())
        self.model = wrap(model)
        self.x = torch.randn(batch, *shape)
        self.y = torch.randint(0, 10, (batch,))
        if isinstance(model, (Gpt, Recurrent)):
            self.x = torch.randint(0, 256, (batch, *shape))
            self.y = torch.randint(0, 256, (batch * shape[0],))
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)

    def run(self, steps):
        began = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(self.x), self.y)
            loss.backward()
            self.optimizer.step()
        seconds = time.perf_counter() - began
        return seconds, loss.item()


class Sum:
    """The all-reduce of a vector, and nothing else."""

    def __init__(self, floats):
        self.parameters = floats
        self.x = torch.zeros(floats)

    def run(self, steps):
        times = []
        for _ in range(steps):
            began = time.perf_counter()
            torch.distributed.all_reduce(self.x)
            times.append(time.perf_counter() - began)
        return steps * sorted(times)[steps // 2], 0.0


def serve(wrap, wait):
    nets = {}
    for line in sys.stdin:
        ask = json.loads(line)
        if ask["do"] == "make":
            net = nets[ask["net"]] = Sum(ask["floats"]) if "floats" in ask else Net(ask, wrap)
            say(parameters=net.parameters)
        else:
            wait()
            seconds, loss = nets[ask["net"]].run(ask["steps"])
            say(seconds=seconds, loss=loss)


def join(rank, size, folder):
    import datetime
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method="file://%s/together" % folder, rank=rank,
                            world_size=size, timeout=datetime.timedelta(seconds=60))
    return nn.parallel.DistributedDataParallel, dist.barrier


def main(args):
    wrap, wait = lambda model: model, lambda: None
    if args:
        wrap, wait = join(int(args[1]), int(args[2]), args[3])
    kind, path = blas()
    say(torch=torch.__version__, isa=capability(), blas=kind, blas_core=blas_core(path),
        blas_path=path, python=sys.executable)
    serve(wrap, wait)


try:
    main(sys.argv[2:])
except Exception as e:
    say(error="%s: %s" % (type(e).__name__, str(e)[:200]))
    sys.exit(1)
