#!/usr/bin/env python3
"""session.py THALWEG LIBRARY [--runs N]: sessions that join `thalweg serve`: with a key, with another
model, killed and joined at random moments, with a master that is killed and restarted."""
import ctypes as C
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

DIMENSION, SAMPLES = 12, 240


def u64(*names):
    return [(n, C.c_uint64) for n in names]


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("text", C.c_char * 600)]


class Tensor(C.Structure):
    _fields_ = [("name", C.c_char_p), ("rank", C.c_uint32), ("shape", C.c_uint64 * 8), ("from_", C.c_size_t),
                ("count", C.c_size_t), ("buffer", C.c_int)]


class Layout(C.Structure):
    _fields_ = [("tensor", C.POINTER(Tensor)), ("tensors", C.c_size_t), ("parameters", C.c_size_t),
                ("initial", C.c_void_p)] + u64("samples", "tests") + [("data", C.c_char_p)]


class Request(C.Structure):
    _fields_ = [("size", C.c_size_t), ("layout", Layout), ("job", C.c_void_p),
                ("directory", C.c_char_p), ("flags", C.c_uint), ("address", C.c_char_p), ("key", C.c_char_p),
                ("save", C.c_char_p), ("patience", C.c_double), ("listen", C.c_void_p), ("user", C.c_void_p),
                ("verbosity", C.c_int), ("own_steps", C.c_int), ("cancel", C.c_void_p), ("keep", C.c_int),
                ("certificate", C.c_char_p), ("certificate_key", C.c_char_p), ("authority", C.c_char_p)]


class Job(C.Structure):
    _fields_ = [("path", C.c_char_p), ("text", C.c_char_p), ("set", C.c_void_p), ("sets", C.c_size_t),
                ("environment", C.c_int), ("world", C.c_int), ("engine", C.c_void_p), ("listen", C.c_void_p),
                ("user", C.c_void_p), ("verbosity", C.c_int)]


class Result(C.Structure):
    _fields_ = [(n, C.c_double) for n in ("loss", "accuracy", "epochs", "updates")] + u64("steps", "samples") + \
        [(n, C.c_double) for n in ("seconds", "samples_per_second", "staleness")] + \
        [("workers", C.c_uint32), ("interrupted", C.c_int), ("digest", C.c_char * 33), ("checkpoint", C.c_char_p),
         ("json", C.c_char_p)]


class Task(C.Structure):
    _fields_ = [("id", C.c_uint64), ("work", C.c_uint32), ("worker", C.c_uint32), ("sample", C.POINTER(C.c_uint64)),
                ("count", C.c_uint64), ("epoch", C.c_uint64), ("parameters", C.POINTER(C.c_float)),
                ("vector", C.POINTER(C.c_float)), ("version", C.c_uint64)] + \
        [(n, C.c_double) for n in ("staleness", "progress", "rate", "now")]


class Answer(C.Structure):
    _fields_ = [("loss", C.c_double), ("correct", C.c_double), ("vector", C.c_void_p)]


def described():
    """These structs as thalweg_abi has them."""
    for name, s in (("error", Error), ("tensor", Tensor), ("layout", Layout), ("session_request", Request),
                    ("task", Task), ("answer", Answer), ("request", Job), ("result", Result)):
        fields = " ".join(f"{f[0].rstrip('_')}@{getattr(s, f[0]).offset}/{getattr(s, f[0]).size}" for f in s._fields_)
        yield f" thalweg_{name} {C.sizeof(s)} {fields}"


def load(path):
    lib = C.CDLL(path)
    lib.thalweg_abi.restype = C.c_char_p
    abi = lib.thalweg_abi().decode() + " "
    for text in described():
        assert text + " " in abi, f"the library has another layout than\n{text}\n{abi}"
    lib.thalweg_session_open.argtypes = [C.POINTER(Request), C.POINTER(C.c_void_p), C.POINTER(Error)]
    lib.thalweg_next.argtypes = [C.c_void_p, C.c_uint, C.c_void_p, C.POINTER(Task), C.POINTER(Error)]
    lib.thalweg_done.argtypes = [C.c_void_p, C.POINTER(Task), C.POINTER(Answer), C.POINTER(Error)]
    lib.thalweg_session_result.argtypes = [C.c_void_p, C.POINTER(Result), C.POINTER(Error)]
    lib.thalweg_session_close.argtypes = [C.c_void_p, C.POINTER(Error)]
    lib.thalweg_session_stop.argtypes = [C.c_void_p]
    return lib


def request(address, key, **other):
    q = Request(size=C.sizeof(Request), address=address.encode(), key=key and key.encode(), patience=20)
    q.layout.parameters = DIMENSION
    q.layout.samples = SAMPLES
    q.layout.data = b"made up"
    for name, value in other.items():
        setattr(q if hasattr(Request, name) else q.layout, name, value)
    return q


def serve(lib, session, why, pause, own_steps=False):
    """The loop of a caller: a bowl whose middle depends on the sample.  With own_steps it answers with
    parameters on the way there, in numbers that need no rounding.  `pause` before each answer: seconds, or
    something to call."""
    task = Task()
    while True:
        got = lib.thalweg_next(session, 100, None, C.byref(task), C.byref(why))
        if got == 0:
            return why.status
        if got != 1:
            continue
        for i in range(DIMENSION):
            if own_steps:
                task.vector[i] = task.parameters[i] / 2 + task.sample[0] % 8
            else:
                task.vector[i] = task.parameters[i] - (task.sample[0] % 7) / 7
        if callable(pause):
            pause()
        elif pause:
            time.sleep(pause)
        lib.thalweg_done(session, C.byref(task), C.byref(Answer(1.0, -1.0, None)), None)


def worker(lib, address, key, pause, **other):
    session, why = C.c_void_p(), Error()
    if lib.thalweg_session_open(C.byref(request(address, key, **other)), C.byref(session), C.byref(why)):
        print(why.text.decode(), file=sys.stderr)
        return why.status
    status, text = serve(lib, session, why, pause, other.get("own_steps")), why.text.decode()
    lib.thalweg_session_close(session, None)
    if status:
        print(text, file=sys.stderr)
    return status


class Cluster:
    def __init__(self, thalweg, library, strategy, workers=2, servers=1, pause=0.0, rule="sgd"):
        self.thalweg, self.library, self.pause = thalweg, library, pause
        self.dir = tempfile.TemporaryDirectory()
        self.job = self.path("job.yaml")
        head = json.dumps({"parameters": {"dtype": "F32", "shape": [DIMENSION],
                                          "data_offsets": [0, 4 * DIMENSION]}}).encode()
        with open(self.path("model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + struct.pack(f"<{DIMENSION}f", *[1.0] * DIMENSION))
        self.text = (f"model: {{tensors: model.safetensors, data: made up}}\n"
                     f"data: {{samples: {SAMPLES}, batch: 4}}\ntrain: {{epochs: 3}}\nupdate: {{rule: {rule}, rate: 0.05}}\n"
                     f"cluster: {{workers: {workers}, min: 1, servers: {servers}, limit: 3s}}\n"
                     f"strategy: {strategy}\ncheckpoint: {{every: 200ms}}\n")
        with open(self.job, "w") as f:
            f.write(self.text)
        self.key = self.path("cluster.key")
        with open(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(subprocess.run([thalweg, "key"], check=True, capture_output=True, text=True).stdout)
        self.port, self.workers = 0, []
        self.serve()

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def serve(self):
        self.log = open(self.path("log"), "w+")
        command = [self.thalweg, "serve", self.job, "--listen", f"127.0.0.1:{self.port}", "--http", "off",
                   "--run", self.path("run"), "--json"] + ["--key", self.key]
        self.master = subprocess.Popen(command, stdout=open(self.path("result"), "w"), stderr=self.log)
        for _ in range(200):
            said = open(self.path("log")).read()
            found = re.search(r"join 127\.0\.0\.1:(\d+)", said)
            if found:
                self.port = int(found.group(1))
                return
            time.sleep(0.05)
        raise AssertionError(f"serve does not listen: {said}")

    def join(self, *more, wait=False):
        command = [sys.executable, __file__, self.thalweg, self.library, "--worker", f"127.0.0.1:{self.port}",
                   self.key, str(self.pause), *more]
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if wait:
            out, err = p.communicate(timeout=60)
            return p.returncode, err
        self.workers.append(p)
        return p

    def result(self, timeout=60):
        self.master.wait(timeout)
        assert self.master.returncode in (0, -signal.SIGKILL), open(self.path("log")).read()
        return json.load(open(self.path("run/result.json")))

    def close(self):
        for p in self.workers + [self.master]:
            if p.poll() is None:
                p.kill()
            p.communicate()
        self.dir.cleanup()


def alone(library, text, own_steps=0):
    """The digest of the same job with workers of this process."""
    lib = load(library)
    job = Job(text=text.encode())
    initial = (C.c_float * DIMENSION)(*[1.0] * DIMENSION)
    q = Request(size=C.sizeof(Request), job=C.addressof(job), own_steps=own_steps)
    q.layout = Layout(parameters=DIMENSION, samples=SAMPLES, initial=C.addressof(initial))
    session, why, result = C.c_void_p(), Error(), Result()
    assert lib.thalweg_session_open(C.byref(q), C.byref(session), C.byref(why)) == 0, why.text
    assert serve(lib, session, why, 0, own_steps) == 0, why.text
    assert lib.thalweg_session_result(session, C.byref(result), C.byref(why)) == 0, why.text
    lib.thalweg_session_close(session, None)
    return result.digest.decode()


def trains(thalweg, library):
    for strategy, servers in (("ssgd", 1), ("ssgd", 2), ("allreduce", 0), ("asgd", 1)):
        c = Cluster(thalweg, library, strategy, servers=servers)
        for _ in range(2):
            c.join()
        if servers == 2:  # one more holds a part of the parameters, and their initial values
            c.workers.append(subprocess.Popen([thalweg, "join", f"127.0.0.1:{c.port}", "--as", "server", "--key", c.key],
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        r = c.result()
        assert r["samples"] == 3 * SAMPLES and r["repeated"] == 0, r
        assert all(p.wait(30) == 0 for p in c.workers), [p.communicate() for p in c.workers]
        if strategy != "asgd":  # rounds have one result in every world
            assert r["parameters_digest"] == alone(library, c.text.split("\n", 1)[1]), strategy
        c.close()


def own_steps(thalweg, library):
    """Callers that take their own steps: rounds of deltas come to what workers of one process come to."""
    c = Cluster(thalweg, library, "{name: local-sgd, push: 3}", rule="caller")
    code, said = c.join(wait=True)
    assert code == 2 and "own_steps" in said, (code, said)
    for _ in range(2):
        c.join("own_steps=1")
    r = c.result()
    assert r["samples"] == 3 * SAMPLES, r
    assert all(p.wait(30) == 0 for p in c.workers), [p.communicate() for p in c.workers]
    assert r["parameters_digest"] == alone(library, c.text.split("\n", 1)[1], 1)
    c.close()


def others_cannot(thalweg, library):
    c = Cluster(thalweg, library, "asgd")
    said = subprocess.run([thalweg, "join", f"127.0.0.1:{c.port}", "--key", c.key], capture_output=True, text=True)
    assert said.returncode == 2 and "thalweg_session_open" in said.stderr, said
    for verb in ("train", "sim"):
        said = subprocess.run([thalweg, verb, c.job], capture_output=True, text=True)
        assert said.returncode == 2 and "thalweg serve" in said.stderr, said
    c.close()


def mistakes(thalweg, library):
    c = Cluster(thalweg, library, "asgd")
    for more, words in (
            (("parameters=13",), ["parameters is 13 here and 12 there"]),
            (("samples=99",), ["99 samples", "240"]),
            (("tests=5",), ["5 test samples"]),
            (("samples=0", "tests=5"), ["5 test samples and no samples"]),
            (("data=other",), ["'other' here", "'made up'"]),
            (("own_steps=1",), ["own_steps:", "rule: caller"])):
        code, said = c.join(*more, wait=True)
        assert code == 2 and all(w in said for w in words), (more, code, said)
    c.key, right = c.path("other.key"), c.key
    with open(os.open(c.key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
        f.write(subprocess.run([thalweg, "key"], check=True, capture_output=True, text=True).stdout)
    code, said = c.join("patience=1.5", wait=True)
    assert code != 0 and "key" in said, (code, said)
    c.key = c.path("none.key")
    code, said = c.join(wait=True)
    assert code == 2 and "none.key" in said, (code, said)
    c.key = right
    port, c.port = c.port, 1
    code, said = c.join("patience=0.5", wait=True)
    assert code != 0 and "127.0.0.1:1" in said, (code, said)
    c.port = port
    c.join()
    c.join("samples=0")  # as many as the master says
    assert c.result()["samples"] == 3 * SAMPLES
    c.close()


def killed(thalweg, library, seed):
    """Callers killed at random moments, others join; sometimes the master is killed, too."""
    rng = random.Random(seed)
    strategy = rng.choice(["ssgd", "ssgd", "asgd", "{name: local-sgd, push: 2}", "ssp"])
    c = Cluster(thalweg, library, strategy, workers=3, pause=0.004)
    for _ in range(3):
        c.join()
    deaths = 0
    for _ in range(rng.randrange(1, 4)):
        time.sleep(rng.uniform(0.05, 0.5))
        if c.master.poll() is not None:
            break
        if rng.random() < 0.3:
            c.master.kill()
            c.master.wait()
            if os.path.exists(c.path("run/result.json")):
                break  # it had just finished
            c.serve()
        else:
            rng.choice(c.workers).kill()
            deaths += 1
            c.join()
    r = c.result(120)
    c.close()
    if strategy == "ssgd":  # each sample once in each epoch, whoever died
        assert r["epochs_applied"] == 3 and r["repeated"] == 0 and r["dropped"] == 0, (seed, r)
    assert r["epochs_applied"] >= 2.9, (seed, strategy, r)
    return deaths


def main():
    thalweg, library = sys.argv[1:3]
    if "--worker" in sys.argv:
        at = sys.argv.index("--worker")
        address, key, pause = sys.argv[at + 1:at + 4]
        other = dict(word.split("=") for word in sys.argv[at + 4:])
        other = {k: v.encode() if k == "data" else float(v) if k == "patience" else int(v) for k, v in other.items()}
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        sys.exit(worker(load(library), address, key, float(pause), **other))
    runs = int(sys.argv[sys.argv.index("--runs") + 1]) if "--runs" in sys.argv else 2
    load(library)
    trains(thalweg, library)
    own_steps(thalweg, library)
    others_cannot(thalweg, library)
    mistakes(thalweg, library)
    deaths = sum(killed(thalweg, library, seed) for seed in range(runs))
    print(f"session: joined, refused, and {runs} runs with {deaths} callers killed")


if __name__ == "__main__":
    main()
