#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains, exports with --standalone, and lets PyTorch build the network that the export prints: with
values as the data has them it must give the outputs that `thalweg predict --raw` gives.  Of networks
on text it must give the nats that `thalweg eval` gives, and go on with a text as `thalweg generate`
does where it always takes the likeliest byte, and the logits that `generate --logits` gives behind
prompts of several lengths, to 1e-4.

    TW_BUILD=build /usr/bin/python3 test/torch/standalone.py [NET ...]

Prints a line per network with the largest difference beside its limit.  Needs python3-torch and a
built tree; exits 77 (skipped) without torch.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from networks import KINKED, SMOOTH, ROOT, np, safe_read, torch  # exits 77 without torch

LIMIT = 1e-5  # of the largest output, or of 1 where that is less


def table(rng, folder, answer):
    """600 rows of 5 columns that differ much in size, as CSV; the last 100 are not trained on."""
    x = rng.normal(size=(600, 5)) * [1, 100, 1e-3, 1e4, 7] + [0, -500, 5e-3, 3e5, 1]
    z = (x - x.mean(0)) / x.std(0)
    y = ["rose" if k > 0.5 else "lily" if k < -0.5 else "iris" for k in z[:, 0] + z[:, 3]] \
        if answer == "classes" else ["yes" if k > 0 else "no" for k in z[:, 1]] \
        if answer == "pair" else [f"{k:.9g}" for k in 3 * z[:, 0] - z[:, 2] ** 2]
    rows = [",".join(f"{v:.9g}" for v in line) for line in x.astype(np.float32)]
    with open(os.path.join(folder, "train.csv"), "w") as f:
        f.write("a,b,c,d,e,answer\n" + "".join(f"{r},{a}\n" for r, a in zip(rows[:500], y)))
    with open(os.path.join(folder, "rows.csv"), "w") as f:
        f.write("a,b,c,d,e\n" + "\n".join(rows[500:]) + "\n")
    return "rows.csv", x[500:].astype(np.float32)


def images(rng, folder, kind):
    """400 images of 2 channels, bytes or floats; the last 70 are not trained on."""
    y = rng.integers(0, 10, 400)
    x = rng.normal(size=(400, 2, 14, 14)) * 30 + 100
    x[np.arange(400), 1, y, :] += 60
    x = np.clip(x, 0, 255).astype(np.uint8) if kind == "bytes" else (x / 7 - 3).astype(np.float32)
    for name, a in (("x", x[:330]), ("y", y[:330]), ("rows", x[330:])):
        np.save(os.path.join(folder, name + ".npy"), a)
    return "rows.npy", x[330:].astype(np.float32)


def series(rng, folder):
    """400 rows of a length and 9 positions of 3 features; the last 80 are not trained on."""
    x = rng.normal(size=(400, 9, 3))
    length = rng.integers(1, 10, 400)
    y = np.array([int(v[:n].mean() > 0) for v, n in zip(x, length)])
    x = np.concatenate((length[:, None], x.reshape(400, -1)), 1).astype(np.float32)
    for name, a in (("x", x[:320]), ("y", y[:320]), ("rows", x[320:])):
        np.save(os.path.join(folder, name + ".npy"), a)
    return "rows.npy", x[320:]


def csv(answer, layers, loss="cross-entropy", more=""):
    task = ", task: values" if answer == "values" else ""
    return (lambda rng, folder: table(rng, folder, answer),
            f"data: {{source: csv, file: train.csv, batch: 25{task}{more}}}\n"
            f"model: {layers}\nloss: {loss}\n", 8)


def npy(kind, layers, more="", epochs=2):
    return (lambda rng, folder: images(rng, folder, kind),
            f"data: {{source: npy, x: x.npy, y: y.npy, batch: 20{more}}}\nmodel: {layers}\n", epochs)


PADDED = "{layers: [conv 6 5x5 pad 2, batchnorm, relu, maxpool 2, conv 8 3x3 pad 1, relu, linear 10]}"
NETS = {
    "mlp": csv("classes", "{name: mlp, hidden: [16, 16]}"),
    "mlp-unit": csv("classes", "{name: mlp, hidden: [16], activation: tanh}", more=", normalise: unit"),
    "table-batchnorm": csv("classes", "{layers: [linear 12, batchnorm, relu, layernorm, linear 3]}"),
    "binary": csv("pair", "{layers: [linear 8, tanh, linear 1]}", "binary-cross-entropy"),
    "regression": csv("values", "{layers: [linear 16, tanh, linear 1]}", "mean-squared"),
    "autoencoder": csv("classes", "{name: autoencoder, hidden: [4, 2]}", "mean-squared"),
    "padded": npy("bytes", PADDED),
    "padded-floats": npy("floats", PADDED),
    "padded-values": npy("floats", PADDED, ", normalise: unit"),
    "resnet20": npy("bytes", "{name: resnet20, width: 4, blocks: 1}"),
    "vgg-small": npy("floats", "{name: vgg-small, width: 4, hidden: 20, dropout: 0.3}"),
    "smooth": npy("floats", SMOOTH, epochs=1),
    "kinked": npy("bytes", KINKED, epochs=1),
    "series": (series, "data: {source: npy, x: x.npy, y: y.npy, batch: 20, normalise: none}\nmodel: "
               "{layers: [series 3, conv1d 12 3 pad 1, lstm 7 both, gru 6 both, rnn 12 both, "
               "attention 2 none, summary max, linear 2]}\n", 3),
    "series-mean": (series, "data: {source: npy, x: x.npy, y: y.npy, batch: 20, normalise: none}\n"
                    "model: {layers: [series 3, linear 12, attention 2, gru 6, summary, linear 2]}\n",
                    3),
}


LENGTH, PROMPT, MORE = 20, "the sea ", 60
LOGITS = 1e-4
TEXTS = {
    "gpt": "{name: gpt, layers: 2, heads: 2, width: 24, dropout: 0.1}",
    "gpt-tied": "{name: gpt, layers: 2, heads: 2, width: 24, tied: true}",
    "char-lstm": "{name: char-lstm, layers: 2, width: 32}",
    "attention": "{layers: [embedding 256 12, linear 36, attention 3, linear 256]}",
    "sequence": "{layers: [embedding 256 16, positions, rmsnorm, gru 18, attention 2, relu, linear 256]}",
    "gates": "{layers: [embedding 256 16, sinusoidal, linear 48, rotary 2, attention 2, linear 24, "
             "swiglu, linear 20, geglu, linear 18, glu, rnn 9, linear 256]}",
}


def thalweg(build, folder, *words):
    r = subprocess.run([os.path.join(build, "thalweg"), *words], cwd=folder, text=True,
                       capture_output=True)
    if r.returncode:
        raise SystemExit(f"torch_standalone: thalweg {' '.join(words)}: {r.stderr}")
    return r.stdout


def compare(build, folder, net):
    make, job, epochs = net
    rows, x = make(np.random.default_rng(5), folder)
    with open(os.path.join(folder, "job.yaml"), "w") as f:
        f.write(job + f"train: {{epochs: {epochs}}}\nupdate: {{rate: 0.02}}\ncluster: {{workers: 1}}\n")
    thalweg(build, folder, "train", "job.yaml", "-q", "--run", "run")
    source = json.loads(thalweg(build, folder, "export", "run", "--standalone", "--to",
                                "net.safetensors", "--json"))["pytorch"]
    thalweg(build, folder, "predict", "run", "--data", rows, "--raw", "--to", "run.npy")
    thalweg(build, folder, "predict", "net.safetensors", "--data", rows, "--raw", "--to", "net.npy")
    room = {}
    exec(source, room)
    state = {k: torch.from_numpy(v) for k, v in safe_read(os.path.join(folder, "net.safetensors")).items()}
    wanted = {k for k in room["net"].state_dict() if not k.endswith("num_batches_tracked")}
    assert set(state) == wanted, set(state) ^ wanted
    room["net"].load_state_dict(state, strict=False)
    room["net"].eval()
    with torch.no_grad():
        theirs = room["net"](torch.from_numpy(x)).numpy()
    ours, alone = (np.load(os.path.join(folder, n)) for n in ("run.npy", "net.npy"))
    assert ours.shape == theirs.shape == alone.shape, (ours.shape, theirs.shape)
    assert np.abs(ours).max() > 1e-3, "the outputs say nothing"
    size = max(1.0, float(np.abs(theirs).max()))
    return float(np.abs(ours - theirs).max()) / size, float(np.abs(ours - alone).max()) / size


def built(build, folder):
    """The network that the export of `run` prints, with its tensors."""
    source = json.loads(thalweg(build, folder, "export", "run", "--standalone", "--to",
                                "net.safetensors", "--json"))["pytorch"]
    room = {}
    exec(source, room)
    state = safe_read(os.path.join(folder, "net.safetensors"))
    room["net"].load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
    return room["net"].eval()


def logits_apart(build, folder, net, prompt):
    """The largest difference of two logits behind a prompt, from a run and from an exported file."""
    seen = list(prompt.encode())[-LENGTH:]
    theirs = net(torch.tensor([seen + [0] * (LENGTH - len(seen))]).float())[0, len(seen) - 1].numpy()
    return max(float(np.abs(np.array(thalweg(build, folder, "generate", path, "--logits", "--prompt", prompt)
                                     .split(), np.float64) - theirs).max())
               for path in ("run", "net.safetensors"))


def compare_text(build, folder, model):
    """How far the nats are apart, and how many bytes of a generated text differ (one more: a logit)."""
    rng = np.random.default_rng(5)
    words = ["the", "sea", "whale", "a", "ship", "and", "of\n"]
    text = " ".join(rng.choice(words, 2500)).encode()[:400 * LENGTH + 1]
    with open(os.path.join(folder, "text.txt"), "wb") as f:
        f.write(text)
    with open(os.path.join(folder, "job.yaml"), "w") as f:
        f.write(f"data: {{source: text, file: text.txt, length: {LENGTH}, batch: 10, test: 0.2}}\n"
                f"model: {model}\ntrain: {{epochs: 3}}\nupdate: {{rule: adam, rate: 0.01}}\n"
                "cluster: {workers: 1}\n")
    thalweg(build, folder, "train", "job.yaml", "-q", "--run", "run")
    net = built(build, folder)
    tokens = torch.from_numpy(np.frombuffer(text, np.uint8).astype(np.int64))
    x, y = tokens[:-1].view(-1, LENGTH)[320:].float(), tokens[1:].view(-1, LENGTH)[320:]
    with torch.no_grad():
        theirs = torch.nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten()).item()
        said = list(PROMPT.encode())
        for _ in range(MORE):
            seen = said[-LENGTH:]
            row = torch.tensor([seen + [0] * (LENGTH - len(seen))]).float()
            said.append(net(row)[0, len(seen) - 1].argmax().item())
        apart = max(logits_apart(build, folder, net, text[:n].decode()) for n in (1, 7, LENGTH, 3 * LENGTH))
    ours = json.loads(thalweg(build, folder, "eval", "run", "--json"))["nats"]
    written = [thalweg(build, folder, "generate", path, "--prompt", PROMPT, "--length", str(MORE),
                       "--temperature", "0").encode()[:len(said)] for path in ("run", "net.safetensors")]
    differ = sum(a != b for text in written for a, b in zip(text, said))
    print(f"  logits of generate apart by at most {apart:.1e} (limit {LOGITS:.0e})")
    return abs(ours - theirs) / theirs, float(differ + (apart > LOGITS))


def main():
    build = os.path.join(ROOT, os.environ.get("TW_BUILD", "build"))
    torch.set_num_threads(1)
    bad = False
    for name in sys.argv[1:] or [*NETS, *TEXTS]:
        with tempfile.TemporaryDirectory() as folder:
            theirs, alone = compare(build, folder, NETS[name]) if name in NETS else \
                compare_text(build, folder, TEXTS[name])
        good = theirs <= LIMIT and alone <= LIMIT
        bad |= not good
        print(f"{name:16} PyTorch {theirs:.1e}, standalone {alone:.1e} (limit {LIMIT:.0e})"
              f"{'' if good else '  TOO FAR'}", flush=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
