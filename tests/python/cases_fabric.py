# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A domain on libfabric's tcp, by the addresses of its objects."""
import ctypes
import os
import re
import unittest

import hmreg

FABRIC = ctypes.CDLL(os.environ["FABRIC"])


class Fabric(unittest.TestCase):
    def setUp(self):
        domain, self.info = ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(FABRIC.fabric_open(b"tcp", ctypes.byref(domain), ctypes.byref(self.info)), 0)
        self.addCleanup(FABRIC.fabric_close)
        self.domain = domain

    def test_token_is_an_address_and_a_key(self):
        buffer = bytearray(1 << 16)
        with hmreg.open() as lib, lib.ofi(self.domain.value, self.info.value) as domain:
            self.assertEqual(domain.info().provider, "ofi")
            with domain.get(buffer, hmreg.REMOTE_WRITE) as region, domain.open_remote(region.pack()) as remote:
                self.assertEqual(remote.addr(0, 1 << 16)[1], region.key)
                self.assertNotEqual(region.keys()[0].native, 0)
            domain.get(buffer, hmreg.REMOTE_WRITE).put()
            self.assertEqual(domain.stats().hits, 1)

    def test_readme_writes(self):
        with open(os.path.join(os.environ["SOURCE_DIR"], "README.md"), encoding="utf-8") as file:
            code, = re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)
        names, buffer, data, u64 = {}, bytearray(1 << 16), bytearray(b"peer"), ctypes.c_uint64
        exec(code, names)

        def write(local, size, desc, addr, key):
            self.assertEqual(
                FABRIC.fabric_write(u64(local), ctypes.c_size_t(size), u64(desc), u64(addr), u64(key)), 0)

        with hmreg.open() as lib, lib.ofi(self.domain.value, self.info.value) as domain:
            names["owner"](domain, buffer, lambda token: names["peer"](domain, token, data, write))
        self.assertEqual(buffer[:5], b"peer\0")

    def test_local_addr_is_of_the_buffer(self):
        buffer = bytearray(1 << 16)
        with hmreg.open() as lib, lib.ofi(self.domain.value, self.info.value) as domain:
            domain.get(buffer, hmreg.WRITE).put()
            with domain.get(memoryview(buffer)[4096:8192], hmreg.WRITE) as region:
                self.assertEqual(region.local_addr, region.addr)
                self.assertEqual(region.local_addr - region.info().local_addr, 4096)
