#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""hit.py LIBHMREG-LOOPBACK [ROUNDS]: what get and put of a buffer seen before cost from Python, in one run: by this
package, by raw ctypes, and by cffi in API mode where cffi and a compiler are installed. Prints the least of the rounds, in CPU time.

    PYTHONPATH=build/release/python python3 bench/python/hit.py build/release/providers/libhmreg-loopback.so
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import time

import hmreg

ACCESS = hmreg.ACCESS_REMOTE
LEN = 1 << 16
CALLS = 20000
LIBRARY = sys.argv[1]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 30


def package(buffer):
    domain = hmreg.open().loopback()
    get = domain.get

    def loop():
        for _ in range(CALLS):
            get(buffer, ACCESS).put()
    return loop


def package_with(buffer):
    domain = hmreg.open().loopback()
    get = domain.get

    def loop():
        for _ in range(CALLS):
            with get(buffer, ACCESS):
                pass
    return loop


def raw_ctypes(buffer):
    """As tests/outside/program.py: the address of the buffer, a new pointer, two calls."""
    lib, domain = ctypes.c_void_p(), ctypes.c_void_p()
    c = ctypes.CDLL(LIBRARY)
    c.hmreg_mr_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p]
    c.hmreg_mr_put.argtypes = [ctypes.c_void_p]
    assert not c.hmreg_open(None, ctypes.byref(lib))
    assert not c.hmreg_domain_open_loopback(lib, None, None, ctypes.byref(domain))
    loop_char = ctypes.c_char

    def loop():
        for _ in range(CALLS):
            mr = ctypes.c_void_p()
            address = ctypes.addressof(loop_char.from_buffer(buffer))
            if c.hmreg_mr_get(domain, address, len(buffer), ACCESS, ctypes.byref(mr)):
                raise SystemExit("get failed")
            c.hmreg_mr_put(mr)
    return loop


def cffi_api(buffer, folder):
    import cffi
    builder = cffi.FFI()
    builder.cdef("""struct hmreg; struct hmreg_domain; struct hmreg_mr;
        int hmreg_open(void *, struct hmreg **);
        int hmreg_domain_open_loopback(struct hmreg *, void *, void *, struct hmreg_domain **);
        int hmreg_mr_get(struct hmreg_domain *, void *, size_t, uint64_t, struct hmreg_mr **);
        void hmreg_mr_put(struct hmreg_mr *);""")
    builder.set_source("hit_cffi", "#include <hmreg/loopback.h>", libraries=["hmreg-loopback", "hmreg"],
                       include_dirs=os.environ["HMREG_INCLUDE"].split(":"),
                       library_dirs=os.environ["HMREG_LIBRARIES"].split(":"))
    builder.compile(tmpdir=folder, verbose=False)
    sys.path.insert(0, folder)
    from hit_cffi import ffi, lib as c
    lib, domain = ffi.new("struct hmreg **"), ffi.new("struct hmreg_domain **")
    assert not c.hmreg_open(ffi.NULL, lib)
    assert not c.hmreg_domain_open_loopback(lib[0], ffi.NULL, ffi.NULL, domain)
    opened, new, from_buffer = domain[0], ffi.new, ffi.from_buffer

    def loop():
        for _ in range(CALLS):
            view, mr = from_buffer(buffer, require_writable=True), new("struct hmreg_mr **")
            if c.hmreg_mr_get(opened, view, len(buffer), ACCESS, mr):
                raise SystemExit("get failed")
            c.hmreg_mr_put(mr[0])
    return loop


def timed(loop):
    start = time.thread_time_ns()
    loop()
    return (time.thread_time_ns() - start) / CALLS


def main(folder):
    buffer = bytearray(LEN)
    loops = {"this package, get().put()": package(buffer), "this package, with": package_with(buffer),
             "raw ctypes": raw_ctypes(buffer)}
    try:
        loops["cffi, API mode"] = cffi_api(buffer, folder)
    except (ImportError, KeyError, subprocess.CalledProcessError) as missing:
        print("cffi, API mode: not measured:", missing)
    times = {name: [] for name in loops}
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            times[name].append(timed(loop))
    for name, each in times.items():
        print(f"{name:28} {min(each):8.0f} ns  1/{min(times['raw ctypes']) / min(each):.1f} of raw ctypes")


with tempfile.TemporaryDirectory() as work:
    main(work)
