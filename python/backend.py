# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel: a zip of the package, the shared library and the program if they are built.

A wheel without the library looks for an installed one when it is imported.

    pip install ./python                                            what ../build has
    pip install ./python --config-settings build=/other/build       another build directory
    pip install ./python --config-settings build=none               the package alone
"""
import base64
import hashlib
import os
import re
import stat
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "thalweg"
VERSION = re.search(r'^version = "(.+)"$', (HERE / "pyproject.toml").read_text(), re.M)[1]
INFO = f"{NAME}-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: Train one model on many machines, with your own loop
License: Apache-2.0
Requires-Python: >=3.9
"""


def _built(settings):
    """The library and the program, each if it is there."""
    folder = (settings or {}).get("build", str(HERE.parent / "build"))
    if folder == "none":
        return None, None
    library = Path(folder) / ("libthalweg.so." + ".".join(VERSION.split(".")[:2]))
    program = Path(folder) / "thalweg"
    if "build" in (settings or {}) and not library.exists():
        raise SystemExit(f"{library} does not exist: build it first, or use build=none")
    return library if library.exists() else None, program if program.exists() else None


def _tag(library):
    return "py3-none-" + re.sub(r"[^a-z0-9_]", "_", sysconfig.get_platform()) if library else "py3-none-any"


class _Wheel:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        row = zipfile.ZipInfo(name)  # of 1980: the same files give the same wheel
        row.external_attr = (stat.S_IFREG | mode) << 16
        row.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(row, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self, tag):
        self.add(f"{INFO}/METADATA", METADATA.encode())
        self.add(f"{INFO}/WHEEL", f"Wheel-Version: 1.0\nGenerator: thalweg\nRoot-Is-Purelib: {'true' if tag.endswith('any') else 'false'}\n"
                 f"Tag: {tag}\n".encode())
        self.zip.writestr(f"{INFO}/RECORD", "".join(self.record) + f"{INFO}/RECORD,,\n")
        self.zip.close()


def _build(directory, settings, editable):
    library, program = (None, None) if editable else _built(settings)
    tag = _tag(library)
    name = f"{NAME}-{VERSION}-{tag}.whl"
    wheel = _Wheel(os.path.join(directory, name))
    if editable:
        wheel.add(f"{NAME}.pth", f"{HERE}\n".encode())
    else:
        for file in sorted((HERE / NAME).glob("*")):
            if file.suffix == ".py" or file.name == "py.typed":
                wheel.add(f"{NAME}/{file.name}", file.read_bytes())
    if library:
        wheel.add(f"{NAME}/{library.name}", library.read_bytes(), 0o755)
    if program:
        wheel.add(f"{NAME}-{VERSION}.data/scripts/{NAME}", program.read_bytes(), 0o755)
    wheel.close(tag)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _build(wheel_directory, config_settings, False)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _build(wheel_directory, config_settings, True)


def build_sdist(sdist_directory, config_settings=None):
    import io
    import tarfile
    name = f"{NAME}-{VERSION}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as tar:
        for file in ["pyproject.toml", "backend.py", *sorted(f"{NAME}/{f.name}" for f in (HERE / NAME).glob("*")
                                                             if f.suffix == ".py" or f.name == "py.typed")]:
            tar.add(HERE / file, f"{NAME}-{VERSION}/{file}")
        row = tarfile.TarInfo(f"{NAME}-{VERSION}/PKG-INFO")
        row.size = len(METADATA.encode())
        tar.addfile(row, io.BytesIO(METADATA.encode()))
    return name


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel
