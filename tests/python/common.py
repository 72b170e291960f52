# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the cases share: an open library and two loopback domains; errors by their number."""
import contextlib
import ctypes
import errno
import time
import unittest

import hmreg

LEN = 1 << 14
BOTH = hmreg.REMOTE_READ | hmreg.REMOTE_WRITE


def waits_for(done):
    for _ in range(6000):
        if done():
            return
        time.sleep(0.01)
    raise AssertionError("it takes a minute")


class Case(unittest.TestCase):
    def setUp(self):
        self.lib = hmreg.open()
        self.domain = self.lib.loopback()
        self.peer = self.lib.loopback()
        self.addCleanup(self.close)

    def close(self):
        for each in self.peer, self.domain, self.lib:
            each.close()

    @contextlib.contextmanager
    def fails(self, number, words=""):
        with self.assertRaises(hmreg.HmregError) as caught:
            yield caught
        names = [errno.errorcode.get(each, each) for each in (caught.exception.errno, number)]
        self.assertEqual(*names, caught.exception)
        self.assertIn(words, caught.exception.text)


class Gate(ctypes.Structure):
    """gate.c: what a domain of Library.verbs() waits at, here an object such as pyverbs' PD."""
    _fields_ = [("waiting", ctypes.c_uint32), ("open", ctypes.c_uint32), ("passed", ctypes.c_uint32)]

    @property
    def pd(self):
        return ctypes.addressof(self)

    def reached(self, passed):
        """Waits until a call is at the gate, which this thread could not see if that call had the GIL: the call gives
        up after a minute. passed: how many had passed before it began."""
        while not self.waiting:
            if self.passed != passed:
                raise AssertionError("a call went through the closed gate: it had the GIL")
            time.sleep(0.001)
