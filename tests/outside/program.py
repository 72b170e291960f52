#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# program.py LIBHMREG-LOOPBACK: hmreg from Python by ctypes, as program.c from C: buffers are registered
# twice, their memory is replaced, they are registered again. Python allocates and frees meanwhile.
import ctypes
import gc
import mmap
import sys

REMOTE = 3 << 12  # HMREG_ACCESS_REMOTE
BUFFERS = 32
LEN = 1 << 16


class Stats(ctypes.Structure):
    """The beginning of struct hmreg_stats."""
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "hits", "misses", "evictions", "invalidations", "uncached", "regions", "bytes", "retired")
    ] + [("others", ctypes.c_uint64 * 256)]  # more than there are: the library fills what it has


hmreg = ctypes.CDLL(sys.argv[1])
hmreg.hmreg_mr_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                               ctypes.c_uint64, ctypes.c_void_p]
hmreg.hmreg_mr_put.argtypes = [ctypes.c_void_p]
lib, domain = ctypes.c_void_p(), ctypes.c_void_p()


def must(code):
    if code:
        raise SystemExit(f"error {code}")


def stats():
    out = Stats(size=ctypes.sizeof(Stats))
    must(hmreg.hmreg_domain_stats(domain, ctypes.byref(out)))
    return out


def address(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def use_all(buffers):
    """Hits of one get of each."""
    before = stats().hits
    for buffer in buffers:
        mr = ctypes.c_void_p()
        must(hmreg.hmreg_mr_get(domain, address(buffer), LEN, REMOTE, ctypes.byref(mr)))
        hmreg.hmreg_mr_put(mr)
    gc.collect()
    return stats().hits - before


must(hmreg.hmreg_open(None, ctypes.byref(lib)))
must(hmreg.hmreg_domain_open_loopback(lib, None, None, ctypes.byref(domain)))
maps = [mmap.mmap(-1, LEN, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(BUFFERS)]
use_all(maps)
numbers = [[str(n) for n in range(10000)] for _ in range(10)]
hits = use_all(maps)
for each in maps:
    each.madvise(mmap.MADV_DONTNEED)
stale = use_all(maps)
print(f"hits {hits} of {BUFFERS}, stale {stale}, uncached {stats().uncached}")
must(hmreg.hmreg_domain_close(domain))
must(hmreg.hmreg_close(lib))
sys.exit(0 if hits == BUFFERS and stale == 0 else 1)
