#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the Python package with pytest.

    TW_BUILD=build /usr/bin/python3 test/python/run.py [--full] [ARGUMENTS OF PYTEST]

Without --full: test_*.py, which need numpy.  With it: full_*.py, which need torch, too.  Exits 77
(skipped) where one of them is missing.
"""
import glob
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def main():
    full = "--full" in sys.argv
    for module in ("numpy", "pytest") + (("torch",) if full else ()):
        if importlib.util.find_spec(module) is None:
            print(f"python: skipped: python3-{module} is not installed (./setup --full installs it)")
            return 77
    build = os.path.join(ROOT, os.environ.get("TW_BUILD", "build"))
    os.environ["TW_LIBRARY"] = os.path.join(build, "libthalweg.so")
    os.environ["TW_PROGRAM"] = os.path.join(build, "thalweg")
    os.environ["PYTHONPATH"] = os.path.join(ROOT, "python")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    more = [a for a in sys.argv[1:] if a != "--full"]
    if not any(a.endswith(".py") or "::" in a for a in more):
        more += sorted(glob.glob(os.path.join(HERE, "full_*.py" if full else "test_*.py")))
    os.execv("/usr/bin/python3", ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull,
                                  "--rootdir", HERE, "--durations=5", *more])


if __name__ == "__main__":
    sys.exit(main())
