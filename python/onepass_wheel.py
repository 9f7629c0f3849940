"""Makes wheels of the package for pip (PEP 517 and 660), with Python's own modules only.

With ONEPASS_LIBRARY set, that shared library goes into the wheel; without, the package looks for an
installed one when it is imported."""

import base64
import hashlib
import io
import os
import re
import sysconfig
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PACKAGE = os.path.join(HERE, "onepass")


def version():
    with open(os.path.join(ROOT, "include", "onepass", "version.h"), encoding="utf-8") as file:
        return ".".join(re.findall(r"define ONEPASS_VERSION_\w+ (\d+)", file.read()))


def metadata():
    return (f"Metadata-Version: 2.1\nName: onepass\nVersion: {version()}\n"
            "Summary: Transformer inference as one recorded pass\nLicense: MIT\n"
            "Requires-Python: >=3.9\nRequires-Dist: numpy\n")


def package_files():
    for name in sorted(os.listdir(PACKAGE)):
        if name.endswith(".py") or name == "py.typed":
            with open(os.path.join(PACKAGE, name), "rb") as file:
                yield f"onepass/{name}", file.read()


def write_wheel(folder, files, tag):
    info = f"onepass-{version()}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: onepass_wheel\n"
                              f"Root-Is-Purelib: {'true' if tag.endswith('any') else 'false'}\n"
                              f"Tag: {tag}\n").encode()
    record = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}")
    record.append(f"{info}/RECORD,,")
    files[f"{info}/RECORD"] = ("\n".join(record) + "\n").encode()
    path = f"onepass-{version()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(folder, path), "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            wheel.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    del config_settings, metadata_directory
    files = dict(package_files())
    tag = "py3-none-any"
    library = os.environ.get("ONEPASS_LIBRARY")
    if library:
        with open(library, "rb") as file:
            files["onepass/" + ("libonepass.dylib" if library.endswith("dylib") else "libonepass.so")] = file.read()
        tag = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
    return write_wheel(wheel_directory, files, tag)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    del config_settings, metadata_directory
    return write_wheel(wheel_directory, {"onepass.pth": (HERE + "\n").encode()}, "py3-none-any")


def build_sdist(sdist_directory, config_settings=None):
    del config_settings
    name = f"onepass-{version()}"
    with tarfile.open(os.path.join(sdist_directory, name + ".tar.gz"), "w:gz") as archive:
        for path in ("pyproject.toml", "README.md", "LICENSE", "include/onepass/version.h",
                     "python/onepass_wheel.py"):
            archive.add(os.path.join(ROOT, path), f"{name}/{path}")
        for path, data in package_files():
            entry = tarfile.TarInfo(f"{name}/python/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        entry = tarfile.TarInfo(f"{name}/PKG-INFO")
        entry.size = len(metadata())
        archive.addfile(entry, io.BytesIO(metadata().encode()))
    return name + ".tar.gz"
