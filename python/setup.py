# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Builds the package against the hmreg that pkg-config finds: python3 setup.py sdist bdist_wheel.

HMREG_BUNDLE=1: the wheel has hmreg's own libraries too, and no other, and is named after the newest glibc whose
symbols they use (manylinux). libfabric and libibverbs are the system's, and loaded when a domain of theirs is opened.
"""
import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
BUNDLE = os.environ.get("HMREG_BUNDLE") == "1"


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def version():
    """In the source tree CMake's; in an unpacked sdist its own."""
    tree, own = HERE.parent / "CMakeLists.txt", HERE / "PKG-INFO"
    if own.exists():
        return re.search(r"^Version: (.*)$", own.read_text(), re.M).group(1)
    return re.search(r"^project\(hmreg VERSION ([0-9.]+)", tree.read_text(), re.M).group(1)


def libraries():
    """hmreg's libraries by their SONAMEs, and the number in those: libhmreg.so.2."""
    folder = Path(output_of("pkg-config", "--variable=libdir", "hmreg"))
    abi = (folder / "libhmreg.so").resolve().name.split(".so.")[1].split(".")[0]
    names = (f"libhmreg{part}.so.{abi}" for part in ("", "-loopback", "-ofi", "-verbs"))
    return abi, [folder / name for name in names if (folder / name).exists()]


class Build(build_ext):
    def build_extension(self, extension):
        abi, files = libraries()
        flags = output_of("pkg-config", "--cflags", "--libs", "hmreg-loopback").split()
        extension.extra_compile_args += [flag for flag in flags if flag.startswith("-I")] + ["-fvisibility=hidden"]
        extension.extra_link_args += [flag for flag in flags if not flag.startswith("-I")]
        extension.define_macros += [(f"HMREG_PYTHON_{name.upper()}", f'"libhmreg-{name}.so.{abi}"')
                                    for name in ("verbs", "ofi")]
        if BUNDLE:
            extension.extra_link_args.append("-Wl,-rpath,$ORIGIN")
        super().build_extension(extension)
        if BUNDLE:
            for file in files:
                shutil.copy(file, Path(self.get_ext_fullpath(extension.name)).parent)


class Wheel(bdist_wheel):
    def get_tag(self):
        python, abi, platform = super().get_tag()
        if not BUNDLE:
            return python, abi, platform
        used = [tuple(map(int, number.split("."))) for file in glob.glob(f"{self.bdist_dir}/hmreg/*.so*")
                for number in re.findall(r"GLIBC_([0-9.]+)", output_of("objdump", "-T", file))]
        newest = max(each[:2] for each in used)
        return python, abi, f"manylinux_{newest[0]}_{newest[1]}_{platform.removeprefix('linux_')}"


setup(
    version=version(),
    ext_modules=[Extension("hmreg._hmreg", sorted(glob.glob("source/*.c", root_dir=HERE)), py_limited_api=True,
                           define_macros=[("_GNU_SOURCE", None)])],
    cmdclass={"build_ext": Build, "bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
