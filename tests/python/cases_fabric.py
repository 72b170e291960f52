# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A domain on libfabric's tcp, by the addresses of its objects."""
import ctypes
import os
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
