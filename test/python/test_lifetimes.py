# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, fork, exit, and a library with other structs."""
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from problem import N, SAMPLES, Cluster, answer, program

import thalweg as tw
from thalweg import _library as L

BEGIN = "import os, signal, sys, time\nimport thalweg as tw\nfrom problem import N, SAMPLES, X, answer\n"
JOB = "{'data.batch': 4, 'update.rate': 0.05}"


def said(p, word, timeout=60):
    line = p.stdout.readline()
    assert word in line, (line, p.stderr.read() if p.poll() is not None else "")


def ended(p, code, within):
    began = time.monotonic()
    out, err = p.communicate(timeout=60)
    took = time.monotonic() - began
    assert p.returncode == code, (p.returncode, out, err)
    assert took < within, took
    return out, err


BLOCKED = BEGIN + """
with tw.join(sys.argv[1], sys.argv[2], parameters=N) as run:
    print('in', flush=True)
    try:
        run.next()
    except KeyboardInterrupt:
        print('interrupted', flush=True)
        raise
"""


def test_interrupt_while_blocked():
    with Cluster(workers=2) as c:  # one joins, and the run waits for the other
        p = program(BLOCKED, c.address, c.key)
        said(p, "in")
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        out, err = ended(p, -signal.SIGINT, 5)
        assert "interrupted" in out and "KeyboardInterrupt" in err
        assert c.master.running


def test_interrupt_while_joining():
    p = program(BEGIN + "print('in', flush=True)\ntw.join('127.0.0.1:1', parameters=N)")
    said(p, "in")
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    ended(p, -signal.SIGINT, 5)


LOOP = BEGIN + f"""
with tw.local('ssgd', {JOB}, parameters=N, samples=SAMPLES, workers=2, epochs=10 ** 6, directory=sys.argv[1]) as run:
    for k, task in enumerate(run):
        if k == 10:
            print('in', flush=True)
        if k >= 10:
            time.sleep(0.01)
        if len(sys.argv) > 2 and k == 20:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                print('second', flush=True)
                raise
        answer(task)
"""


def test_first_interrupt_makes_a_checkpoint(tmp_path):
    p = program(LOOP, tmp_path / "run")
    said(p, "in")
    p.send_signal(signal.SIGINT)
    out, err = ended(p, -signal.SIGINT, 20)
    assert "press Ctrl-C again" in err
    assert any(name.startswith("ckpt-") for name in os.listdir(tmp_path / "run"))


def test_second_interrupt_ends_at_once(tmp_path):
    p = program(LOOP, tmp_path / "run", "sleep")
    said(p, "in")
    time.sleep(0.5)  # it sleeps in its own code now
    p.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert p.poll() is None
    p.send_signal(signal.SIGINT)
    out, _ = ended(p, -signal.SIGINT, 10)
    assert "second" in out


def test_interrupt_of_a_training(tmp_path):
    p = program(BEGIN + """
import json
job = {'model': {'quadratic': {}}, 'data': {'batch': 2}, 'train': {'epochs': 10 ** 6}, 'update': {'rate': 1e-6}, 'strategy': 'ssgd'}
print('in', flush=True)
tw.train(job, directory=sys.argv[1])
""", tmp_path / "run")
    said(p, "in")
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    ended(p, -signal.SIGINT, 20)
    assert any(name.startswith("ckpt-") for name in os.listdir(tmp_path / "run"))


def test_a_child_is_refused():
    with tw.local("asgd", {"data.batch": 4, "update.rate": 0.05}, parameters=N, samples=SAMPLES, workers=2) as run:
        task = run.next()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                answer(task)
                text = "answered"
            except tw.Error as why:
                text = str(why)
            try:
                run.close()  # of no effect here
                run.next()
            except tw.Error as why:
                text += "; " + str(why)
            os.write(write, text.encode())
            os._exit(0)
        os.close(write)
        text = os.read(read, 4000).decode()
        os.close(read)
        os.waitpid(pid, 0)
        assert text.count(f"belongs to process {os.getpid()}") == 1 and "closed" in text or text.count("belongs to") == 2, text
        answer(task)
        for task in run:
            answer(task)
        assert run.result.samples == SAMPLES


EXITS = BEGIN + f"""
import random, threading
rng = random.Random(int(sys.argv[1]))
how = rng.choice(['task', 'thread', 'open', 'raise', 'exit', 'closed', 'fork'])
run = tw.local(rng.choice(['ssgd', 'asgd', 'ring', 'local-sgd']), {JOB}, parameters=N, samples=SAMPLES, workers=4, epochs=100)
for k in range(rng.randrange(20)):
    answer(run.next())
def loop():
    try:
        for task in run:
            answer(task)
    except tw.Error:
        pass
if how == 'task':
    task = run.next()
elif how == 'thread':
    for _ in range(2):
        threading.Thread(target=loop, daemon=True).start()
    time.sleep(rng.random() * 0.02)
elif how == 'raise':
    raise SystemExit(0)
elif how == 'exit':
    sys.exit(0)
elif how == 'closed':
    run.close()
elif how == 'fork' and os.fork() == 0:
    sys.exit(0)
"""


def exits(seeds):
    running = []
    for seed in seeds:
        running.append(program(EXITS, seed))
        if len(running) == 4 or seed == seeds[-1]:
            for p in running:
                out, err = p.communicate(timeout=60)
                assert p.returncode == 0 and not err, (seed, p.returncode, err)
            running = []


def test_exits():
    exits(range(8))


def test_the_handshake_refuses_other_structs():
    abi = L.lib
    abi.thalweg_abi.restype = __import__("ctypes").c_char_p
    text = abi.thalweg_abi().decode()
    L.compare(text, "it")
    for change in ((r"thalweg_task \d+", "thalweg_task 112"), (r"staleness@(\d+)/8", r"staleness@\1/4"),
                   (r"version@", "versions@"), (r"^thalweg 0.1", "thalweg 0.2"), (r"thalweg_answer", "thalweg_answers")):
        other = re.sub(change[0], change[1], text)
        assert other != text
        with pytest.raises(ImportError, match="install the package that comes with the library"):
            L.compare(other, "it")


FALSE = """
const char *thalweg_abi(void) { return "thalweg 0.1 thalweg_error 604 status@0/4 text@4/600"; }
"""


def test_another_library_is_refused(tmp_path):
    cc = __import__("shutil").which("cc")
    if not cc:
        pytest.skip("there is no C compiler")
    (tmp_path / "f.c").write_text(FALSE)
    L.lib.thalweg_abi.restype = __import__("ctypes").c_char_p
    (tmp_path / "old.c").write_text(FALSE.replace(FALSE.split('"')[1], L.lib.thalweg_abi().decode()))
    for name in ("f", "old"):
        subprocess.run([cc, "-shared", "-fPIC", "-o", tmp_path / f"{name}.so", tmp_path / f"{name}.c"], check=True)
    for file, text in ((tmp_path / "f.so", "has another struct thalweg_tensor"),
                       (tmp_path / "old.so", "has no function thalweg_version: it is older than this package"),
                       (tmp_path / "none.so", "the shared library of Thalweg was not found")):
        p = subprocess.run([sys.executable, "-c", "import thalweg"], env={**os.environ, "TW_LIBRARY": str(file)},
                           capture_output=True, text=True)
        assert p.returncode == 1 and "ImportError" in p.stderr and text in p.stderr, p.stderr
