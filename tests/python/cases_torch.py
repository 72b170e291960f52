# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The hook for torch's pluggable allocator, called as torch calls it: by its signatures, on any thread."""
import ctypes
import errno
import threading

import hmreg
from common import BOTH, LEN, Case

ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype, LIBC.malloc.argtypes, LIBC.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]


class Torch(Case):
    def setUp(self):
        super().setUp()
        self.calls = []
        self.allocate = ALLOCATE(lambda size, device, stream: self.calls.append((device, stream)) or LIBC.malloc(size))
        self.free = FREE(lambda memory, size, device, stream: self.calls.append(size) or LIBC.free(memory))
        self.hook(BOTH)

    def hook(self, access):
        """As torch's CUDAPluggableAllocator does with the three arguments."""
        file, allocate, free = hmreg.torch_hook(self.domain, access, *(
            ctypes.cast(each, ctypes.c_void_p).value for each in (self.allocate, self.free)))
        torch = ctypes.CDLL(file)
        self.torch_allocate, self.torch_free = ALLOCATE((allocate, torch)), FREE((free, torch))

    def close(self):
        hmreg.torch_hook()
        super().close()

    def test_block_is_registered_once_and_ends_with_its_free(self):
        block = self.torch_allocate(LEN, 3, 7)
        self.assertEqual((self.calls, hmreg.torch_stats()[0]), ([(3, 7)], 1))
        for offset in range(0, LEN, 1024):
            self.domain.get((block + offset, 1024), BOTH).put()
        stats = self.domain.stats()
        self.assertEqual((stats.misses, stats.hits, stats.regions), (1, LEN // 1024, 1))
        self.torch_free(block, LEN, 3, 7)
        stats = self.domain.stats()
        self.assertEqual((stats.regions, stats.retired, hmreg.torch_stats()[0]), (0, 0, 0))
        self.assertEqual(self.calls[1], LEN)

    def test_domain_of_the_hook_is_not_closed(self):
        block = self.torch_allocate(LEN, 0, None)
        for end in self.domain.close, hmreg.torch_hook:
            with self.fails(errno.EBUSY):
                end()
        self.torch_free(block, LEN, 0, None)
        with self.fails(errno.EBUSY):
            self.domain.close()
        with self.fails(errno.EBUSY, "has a domain"):
            self.hook(BOTH)

    def test_block_that_cannot_be_registered_is_torchs_all_the_same(self):
        hmreg.torch_hook()
        self.hook(1)
        failures = hmreg.torch_stats()[1]
        block = self.torch_allocate(LEN, 0, None)
        self.assertTrue(block)
        self.assertEqual(hmreg.torch_stats(), (0, failures + 1))
        self.torch_free(block, LEN, 0, None)
        self.assertEqual(self.calls[-1], LEN)

    def test_allocator_outlives_the_hook(self):
        hmreg.torch_hook()
        with self.lib.loopback() as domain:
            hmreg.torch_hook(domain, BOTH, *(ctypes.cast(each, ctypes.c_void_p).value
                                             for each in (self.allocate, self.free)))
            hmreg.torch_hook()
        before = hmreg.torch_stats()
        block = self.torch_allocate(LEN, 0, None)
        self.assertTrue(block)
        self.assertEqual(hmreg.torch_stats(), before)
        self.torch_free(block, LEN, 0, None)
        self.assertEqual(self.calls[-1], LEN)

    def test_block_freed_past_the_hook(self):
        memory = ctypes.create_string_buffer(LEN)
        hmreg.torch_hook()
        self.allocate = ALLOCATE(lambda size, device, stream: ctypes.addressof(memory))
        self.free = FREE(lambda memory, size, device, stream: None)
        self.hook(BOTH)
        failures = hmreg.torch_stats()[1]
        blocks = [self.torch_allocate(LEN, 0, None) for _ in range(2)]
        self.assertEqual(blocks[0], blocks[1])
        self.assertEqual(hmreg.torch_stats(), (1, failures + 1))
        self.torch_free(blocks[0], 1, 0, None)  # as long as it was registered
        stats = self.domain.stats()
        self.assertEqual((stats.regions, stats.retired, hmreg.torch_stats()[0]), (0, 0, 0))

    def test_allocator_without_memory(self):
        hmreg.torch_hook()
        self.allocate = ALLOCATE(lambda size, device, stream: None)
        self.hook(BOTH)
        self.assertIsNone(self.torch_allocate(LEN, 0, None))
        self.assertEqual(hmreg.torch_stats()[0], 0)

    def test_threads(self):
        def work():
            for _ in range(100):
                blocks = [self.torch_allocate(LEN, 0, None) for _ in range(5)]
                for block in blocks:
                    self.torch_free(block, LEN, 0, None)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(hmreg.torch_stats()[0], 0)
        stats = self.domain.stats()
        self.assertEqual((stats.regions, stats.misses + stats.hits), (0, 2000))
