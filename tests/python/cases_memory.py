# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
import array
import ctypes
import errno
import gc
import mmap
import sys
import unittest

import hmreg
from common import BOTH, LEN, Case

try:
    import numpy
except ImportError:
    numpy = None


class Cuda:
    """Memory with __cuda_array_interface__; what it says can be changed."""

    def __init__(self, memory, **changes):
        self.memory = memory
        data = (ctypes.addressof(ctypes.c_char.from_buffer(memory)), False)
        self.__cuda_array_interface__ = {"version": 3, "data": data, "shape": (4, LEN // 16), "typestr": "<f4",
                                         "strides": None, **changes}


class Tensor(ctypes.Structure):
    """DLManagedTensor's beginning."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Dlpack:
    """Memory with __dlpack__(), of device type 1 (CPU) or another."""
    ended = 0
    keywords = None

    def __init__(self, memory, strides=None, device=1, bits=32):
        self.memory = memory
        self.shape = (ctypes.c_int64 * 2)(4, LEN // 16 - 1)
        self.strides = (ctypes.c_int64 * 2)(*strides) if strides else None
        self.tensor = Tensor(ctypes.addressof(ctypes.c_char.from_buffer(memory)), device, 0, 2, 2, bits, 1,
                             self.shape, self.strides, 16)
        self.name = b"dltensor"
        kind = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
        self.destructor = kind(self.end)

    def end(self, capsule):
        self.ended += 1

    def __dlpack_device__(self):
        return (self.tensor.device_type, 0)

    def __dlpack__(self, **keywords):
        self.keywords = keywords
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), self.name, ctypes.cast(self.destructor, ctypes.c_void_p))


class Memory(Case):
    def covers(self, memory, length, access=BOTH):
        with self.domain.get(memory, access) as region:
            self.assertEqual(region.len, length)
            return region.addr

    def test_buffers(self):
        self.covers(bytearray(LEN), LEN)
        self.covers(array.array("d", [0] * 100), 800)
        self.covers(mmap.mmap(-1, LEN), LEN)
        self.covers(memoryview(bytearray(LEN))[100:200], 100)
        self.covers((ctypes.c_int * 10)(), 40)
        self.covers(b"read only", 9, hmreg.SEND | hmreg.REMOTE_READ | hmreg.WRITE)

    def test_memory_that_cannot_be_written_is_refused(self):
        for access in hmreg.READ, hmreg.RECV, hmreg.REMOTE_WRITE:
            with self.assertRaises(BufferError):
                self.domain.get(b"read only", access)
            with self.assertRaises(BufferError):
                self.domain.reg(b"read only", access)
        with self.domain.get(bytearray(LEN), BOTH) as region, self.peer.open_remote(region.pack()) as remote:
            with self.assertRaises(BufferError):
                remote.read(b"read only")

    def test_memory_that_is_not_contiguous_is_refused(self):
        with self.assertRaises(BufferError):
            self.domain.get(memoryview(bytearray(LEN))[::2], BOTH)

    def test_nothing_is_refused(self):
        with self.fails(errno.EINVAL):
            self.domain.get(bytearray(0), BOTH)

    def test_address_and_length(self):
        target = bytearray(LEN)
        address = ctypes.addressof(ctypes.c_char.from_buffer(target))
        self.assertEqual(self.covers((address + 8, 100), 100), address + 8)

    def test_buffer_is_held_until_put(self):
        target, mapping = bytearray(LEN), mmap.mmap(-1, LEN)
        for call in self.domain.get, self.domain.reg:
            regions = [call(target, BOTH), call(mapping, BOTH)]
            for end in target.clear, mapping.close:
                with self.assertRaises(BufferError):
                    end()
            for region in regions:
                region.put()
        target.clear()
        mapping.close()

    def test_buffer_lives_as_long_as_its_region(self):
        region = self.domain.get(bytearray(b"7" * LEN), BOTH)
        gc.collect()
        with self.peer.open_remote(region.pack()) as remote:
            read = bytearray(LEN)
            remote.read(read)
        self.assertEqual(read, b"7" * LEN)
        region.put()

    def test_cuda_array_interface(self):
        memory = bytearray(LEN)
        owner = Cuda(memory, strides=(LEN // 4, 4))
        before = sys.getrefcount(owner)
        region = self.domain.get(owner, BOTH)
        self.assertEqual((region.len, region.addr), (LEN, owner.__cuda_array_interface__["data"][0]))
        self.assertEqual(sys.getrefcount(owner), before + 1)
        region.put()
        self.assertEqual(sys.getrefcount(owner), before)
        self.covers(Cuda(memory, shape=(3,), typestr="|V5"), 15)

    def test_cuda_array_interface_refused(self):
        memory = bytearray(LEN)
        data = Cuda(memory).__cuda_array_interface__["data"]
        for changes in ({"strides": (4, 16)}, {"shape": None}, {"typestr": None}, {"data": None},
                        {"strides": (4,)}, {"shape": 5}, {"data": (data[0], True)}, {"shape": (1 << 62, 8)}):
            with self.assertRaises(BufferError, msg=str(changes)):
                self.domain.get(Cuda(memory, **changes), BOTH)

    def test_dlpack(self):
        owner = Dlpack(bytearray(LEN))
        region = self.domain.get(owner, BOTH)
        self.assertEqual((region.len, region.addr), (LEN - 16, owner.tensor.data + 16))
        self.assertEqual((owner.ended, owner.keywords), (0, {}))
        region.put()
        self.assertEqual(owner.ended, 1)

    def test_dlpack_of_a_device_waits_for_no_stream(self):
        owner = Dlpack(bytearray(LEN), strides=(LEN // 16 - 1, 1), device=2)
        self.covers(owner, LEN - 16)
        self.assertEqual(owner.keywords, {"stream": -1})

    def test_dlpack_refused(self):
        owner = Dlpack(bytearray(LEN), strides=(1, 4))
        with self.assertRaises(BufferError):
            self.domain.get(owner, BOTH)
        self.assertEqual(owner.ended, 1)
        for odd in Dlpack(bytearray(LEN), bits=4), Dlpack(bytearray(LEN), device=4), Dlpack(bytearray(LEN), device=99):
            with self.assertRaises(BufferError):
                self.domain.get(odd, BOTH)
        owner = Dlpack(bytearray(LEN))
        owner.name = b"used_dltensor"
        with self.assertRaises(ValueError):
            self.domain.get(owner, BOTH)

    def test_dlpack_whose_device_fails(self):
        class Odd:
            device = None
            asked = 0

            def __dlpack_device__(self):
                return self.device or self.undefined

            @property
            def __dlpack__(self):
                self.asked += 1
        odd = Odd()
        for device, error in ((None, AttributeError), ([1, 0], BufferError), ((1,), TypeError), (1, BufferError)):
            odd.device, odd.asked = device, 0
            with self.assertRaises(error):
                self.domain.get(odd, BOTH)
            self.assertEqual(odd.asked, 1)  # whether there is one

    def test_objects_closed_while_memory_is_taken(self):
        """Taking memory runs Python, which may close what the call began with."""
        class Closer(Dlpack):
            def __dlpack__(self, **keywords):
                self.close()
                return super().__dlpack__(**keywords)
        closer = Closer(bytearray(LEN))

        def closed(thing, call, *args):
            closer.close = thing.close
            with self.fails(errno.EINVAL, "closed"):
                call(closer, *args)
            self.assertTrue(thing.closed)
        for name in "get", "reg":
            domain = self.lib.loopback()
            closed(domain, getattr(domain, name), BOTH)
        for name in "query", "invalidate", "suspend", "resume":
            lib = hmreg.open()
            closed(lib, getattr(lib, name))
        with self.domain.get(bytearray(LEN), BOTH) as region:
            remote = self.peer.open_remote(region.pack())
            closed(remote, remote.write)
            with self.peer.open_remote(region.pack()) as remote, self.peer.get(closer.memory, BOTH) as local:
                closed(local, remote.write, 0, local)
        self.assertEqual(closer.ended, 8)

    def test_group_whose_library_is_closed_by_its_members(self):
        def members():
            lib.close()
            yield self.domain
        lib = hmreg.open()
        with self.fails(errno.EINVAL, "closed"):
            lib.group(members())

    def test_cycle_through_a_region_is_collected(self):
        class Holder(Cuda):
            pass
        holder = Holder(bytearray(LEN))
        holder.region = self.domain.get(holder, BOTH)
        del holder
        gc.collect()
        self.assertFalse([each for each in gc.get_objects() if isinstance(each, (Holder, hmreg.Region))])

    def test_failed_get_holds_nothing(self):
        target = bytearray(LEN)
        with self.fails(errno.EINVAL):
            self.domain.get(target, 1)
        target.clear()

    @unittest.skipUnless(numpy, "numpy is not installed (Debian's python3-numpy)")
    def test_numpy(self):
        values = numpy.arange(1000, dtype="f8").reshape(10, 100)
        self.covers(values, 8000)
        self.covers(values.T, 8000)
        with self.assertRaises(ValueError):  # numpy's own
            self.domain.get(values[:, ::2], BOTH)
        values.flags.writeable = False
        with self.assertRaises(ValueError):
            self.domain.get(values, BOTH)
