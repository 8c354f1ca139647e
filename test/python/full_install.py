# SPDX-License-Identifier: Apache-2.0
"""Installing without a network in a clean environment; a thousand exits."""
import os
import subprocess
import sys

import pytest
from test_lifetimes import exits

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRY = """
import thalweg as tw
print(tw._lib._name, tw._library.program())
r = tw.train({'model': {'quadratic': {}}, 'data': {'batch': 2}, 'update': {'rate': 0.01}, 'strategy': 'ssgd'})
assert r.samples == 1024, r
"""


def test_pip_without_a_network(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "HOME": str(tmp_path)}
    if subprocess.run(["/usr/bin/python3", "-m", "venv", tmp_path / "env"], env=env, capture_output=True).returncode:
        pytest.skip("python3-venv is not installed")
    build = os.path.dirname(os.environ["TW_PROGRAM"])
    subprocess.run([tmp_path / "env/bin/pip", "install", f"{ROOT}/python", "--config-settings", f"build={build}"], env=env,
                   check=True, capture_output=True)
    said = subprocess.run([tmp_path / "env/bin/python", "-c", TRY], env=env, cwd=tmp_path, check=True, capture_output=True,
                          text=True).stdout
    assert said.split() == [str(tmp_path / "env/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" /
                                "site-packages/thalweg/libthalweg.so.0.1"), str(tmp_path / "env/bin/thalweg")]
    subprocess.run([tmp_path / "env/bin/pip", "uninstall", "-y", "thalweg"], env=env, check=True, capture_output=True)
    assert not os.path.exists(tmp_path / "env/bin/thalweg")
    p = subprocess.run([tmp_path / "env/bin/pip", "install", f"{ROOT}/python", "--config-settings", "build=/none"], env=env,
                       capture_output=True, text=True)
    assert p.returncode and "does not exist: build it first" in p.stderr + p.stdout


def test_a_thousand_exits():
    exits(range(int(os.environ.get("TW_EXITS", "1000"))))
