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
        self.domain, self.info = ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(self.open(), 0)
        self.addCleanup(FABRIC.fabric_close)

    def open(self):
        return FABRIC.fabric_open(b"tcp", ctypes.byref(self.domain), ctypes.byref(self.info))

    def write(self, local, size, desc, addr, key):
        u64 = ctypes.c_uint64
        self.assertEqual(FABRIC.fabric_write(u64(local), ctypes.c_size_t(size), u64(desc), u64(addr), u64(key)), 0)

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
        names, buffer, data = {}, bytearray(1 << 16), bytearray(b"peer")
        exec(code, names)
        with hmreg.open() as lib, lib.ofi(self.domain.value, self.info.value) as domain:
            names["owner"](domain, buffer, lambda token: names["peer"](domain, token, data, self.write))
        self.assertEqual(buffer[:5], b"peer\0")

    def test_domain_that_is_opened_anew_after_hibernating(self):
        buffer, data = bytearray(1 << 16), bytearray(b"awake" * 1000)
        with hmreg.open() as lib, lib.ofi(self.domain.value, self.info.value) as domain:
            with domain.get(buffer, hmreg.REMOTE_WRITE) as region, domain.open_remote(region.pack()) as before:
                with self.assertRaisesRegex(hmreg.HmregError, "does not hibernate"):
                    domain.renew(self.domain.value, self.info.value)
                lib.hibernate()
                FABRIC.fabric_close()
                with self.assertRaisesRegex(hmreg.HmregError, "has no fabric yet"):
                    lib.thaw()
                self.assertEqual(self.open(), 0)
                with self.assertRaisesRegex(hmreg.HmregError, "info"):
                    domain.renew(self.domain.value, 0)
                domain.renew(self.domain.value, self.info.value)
                lib.thaw()
                self.assertEqual(before.check(region.pack()), "other life")
                with domain.open_remote(region.pack()) as remote, domain.get(data, hmreg.WRITE) as local:
                    self.write(local.local_addr, local.len, local.desc, *remote.addr(0, local.len))
        self.assertEqual(buffer[:5001], b"awake" * 1000 + b"\0")

    def test_local_addr_is_of_the_buffer(self):
        buffer = bytearray(1 << 16)
        with hmreg.open() as lib, lib.ofi(self.domain.value, self.info.value) as domain:
            domain.get(buffer, hmreg.WRITE).put()
            with domain.get(memoryview(buffer)[4096:8192], hmreg.WRITE) as region:
                self.assertEqual(region.local_addr, region.addr)
                self.assertEqual(region.local_addr - region.info().local_addr, 4096)
