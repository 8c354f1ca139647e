# SPDX-License-Identifier: Apache-2.0
"""A simulated device whose copies are late: the results are the processor's, bit for bit; a copy
whose order is left out on purpose is noticed."""
import os
import subprocess
import sys
import warnings

import pytest
import torch

from thalweg._copies import Copies
from thalweg.selftest import Slow, apart, trained


@pytest.mark.parametrize("arguments", [{}, {"strategy": "asgd"}, {"own": True}])
def test_results_are_the_processors(arguments):
    slow = Slow()
    assert apart(trained(**arguments), trained(fake=slow, **arguments)) == 0
    assert slow.copies > 50
    slow.close()


@pytest.mark.parametrize("order", ["arrive", "send"])
def test_a_missing_order_shows(order):
    slow = Slow(0.01, break_order=order)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of losses that are not finite
            different = apart(trained(), trained(fake=slow))
    except Exception as why:  # every gradient was refused
        assert "refused" in str(why) or "not finite" in str(why), why
        return
    assert different > 0


@pytest.mark.parametrize("order", [None, "reuse"])
def test_a_buffer_is_not_written_while_it_is_read(order):
    slow = Slow(0.05, break_order=order)
    slow.before_compute = lambda event: None  # as with streams: the host does not wait
    copies = Copies(slow, 4)
    _ = copies.into
    copies.host.fill_(1.0)
    copies.arrive()
    event = copies._arrived
    _ = copies.into
    copies.host.fill_(2.0)
    event.happened.wait()
    slow.close()
    assert (copies.memory == (1.0 if order is None else 2.0)).all()


def test_the_command():
    p = subprocess.run([sys.executable, "-m", "thalweg.selftest"], capture_output=True, text=True, env=os.environ)
    assert p.returncode == 0 and p.stdout.count("ok ") == 3, p.stdout + p.stderr
    if not torch.cuda.is_available():
        p = subprocess.run([sys.executable, "-m", "thalweg.selftest", "--device", "cuda"], capture_output=True, text=True)
        assert p.returncode == 2 and "no CUDA device" in p.stderr
