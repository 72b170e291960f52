# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""torch's tensors in host memory, where torch is installed."""
import ctypes
import errno
import gc
import sys
import unittest

import hmreg
from common import BOTH, LEN, Case, waits_for

try:
    import numpy
    import torch
except ImportError:
    torch = None
LARGE = 1 << 25  # memory of a mapping of its own


@unittest.skipUnless(torch, "torch and numpy are not installed (Debian's python3-torch, python3-numpy)")
class Tensors(Case):
    def setUp(self):
        """The monitor is chosen once torch's libraries have been searched (docs/raw-calls.md)."""
        super().setUp()
        waits_for(lambda: self.domain.get(bytearray(LEN), BOTH).put() or self.lib.monitor().active != "default")
        self.domain.flush()
        self.before = self.domain.stats()

    def counted(self):
        """Misses and hits of the case."""
        now = self.domain.stats()
        return now.misses - self.before.misses, now.hits - self.before.hits

    def read(self, region):
        data = bytearray(region.len)
        with self.peer.open_remote(region.pack()) as remote:
            remote.read(data)
        return bytes(data)

    def test_tensor_is_its_memory(self):
        tensor = torch.zeros(LEN // 4)
        with self.domain.get(tensor, BOTH) as region, self.peer.open_remote(region.pack()) as remote:
            self.assertEqual((region.addr, region.len), (tensor.data_ptr(), LEN))
            remote.write(torch.ones(4), 16)
        self.assertEqual(tensor[:9].tolist(), [0] * 4 + [1] * 4 + [0])
        self.domain.get(tensor, BOTH).put()
        self.assertEqual(self.counted(), (1, 1))

    def test_part_of_a_tensor(self):
        tensor = torch.zeros(8, 16, dtype=torch.bfloat16)
        for part, offset, length in ((tensor[2:4], 64, 64), (tensor[7, 3:5], 230, 4), (tensor.view(-1)[1:], 2, 254)):
            with self.domain.get(part, BOTH) as region:
                self.assertEqual((region.addr, region.len), (tensor.data_ptr() + offset, length))

    def test_types(self):
        for kind in "uint8", "int64", "float16", "bfloat16", "float64", "complex64":
            tensor = torch.zeros(10, dtype=getattr(torch, kind))
            with self.domain.get(tensor, BOTH) as region:
                self.assertEqual(region.len, 10 * tensor.element_size())

    def test_tensor_that_is_dropped_lives_until_put(self):
        array = numpy.full(LEN, 7, dtype="u1")
        before = sys.getrefcount(array)
        region = self.domain.get(torch.from_numpy(array), BOTH)
        gc.collect()
        self.assertGreater(sys.getrefcount(array), before)
        self.assertEqual(self.read(region), b"\7" * LEN)
        region.put()
        self.assertEqual(sys.getrefcount(array), before)

    def test_storage_is_freed_with_the_region(self):
        """Of torch's own memory too: the next tensor of the size is not in the same place before."""
        region = self.domain.get(torch.ones(LARGE // 4), BOTH)
        others = [torch.zeros(LARGE // 4) for _ in range(4)]
        self.assertNotIn(region.addr, [each.data_ptr() for each in others])
        self.assertEqual(self.read(region)[-4:], numpy.float32(1).tobytes())
        region.put()

    def test_storage_that_torch_frees_under_a_region(self):
        """Neither refuses it; but no later get finds that region."""
        tensor = torch.ones(LARGE // 4)
        with self.domain.get(tensor, BOTH):
            tensor.untyped_storage().resize_(0)
            tensor.untyped_storage().resize_(LARGE)
            tensor.fill_(2)
            with self.domain.get(tensor, BOTH) as region:
                self.assertEqual(self.read(region)[:4], numpy.float32(2).tobytes())
        self.assertEqual(self.counted(), (2, 0))

    def test_refused(self):
        tensor = torch.zeros(8, 8)
        for odd in tensor.t(), tensor[:, :4], tensor[::2]:
            with self.assertRaises(BufferError):
                self.domain.get(odd, BOTH)
        with self.fails(errno.EINVAL):
            self.domain.get(tensor[:0], BOTH)

    def test_tensor_that_requires_a_gradient(self):
        tensor = torch.zeros(8, requires_grad=True)
        with self.assertRaisesRegex((BufferError, RuntimeError), "detach"):  # torch's own
            self.domain.get(tensor, BOTH)
        self.domain.get(tensor.detach(), BOTH).put()

    def test_pluggable_allocator(self):
        """torch's class finds both functions; the C++ that takes their addresses is in builds with CUDA alone."""
        kind, libc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p), ctypes.CDLL(None)
        libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        allocate = kind(lambda size, device, stream: libc.malloc(ctypes.c_size_t(size)))
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(
            lambda memory, size, device, stream: libc.free(memory))
        taken = []
        if hasattr(torch._C, "_cuda_customAllocator"):
            self.skipTest("this torch has CUDA, and its allocator stays the process's")
        torch._C._cuda_customAllocator = lambda *addresses: taken.extend(addresses)
        self.addCleanup(delattr, torch._C, "_cuda_customAllocator")
        torch.cuda.memory.CUDAPluggableAllocator(*hmreg.torch_hook(
            self.domain, BOTH, *(ctypes.cast(each, ctypes.c_void_p).value for each in (allocate, free))))
        self.addCleanup(hmreg.torch_hook)
        block = kind(taken[0])(LEN, 0, None)
        self.domain.get((block, LEN), BOTH).put()
        counted, blocks = self.counted(), hmreg.torch_stats()[0]
        type(free)(taken[1])(block, LEN, 0, None)
        self.assertEqual((counted, blocks, hmreg.torch_stats()[0]), ((1, 1), 1, 0))
