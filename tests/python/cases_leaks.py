# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Each call in a loop, failures too: as many of Python's blocks and references afterwards as before."""
import gc
import sys

import hmreg
from common import BOTH, LEN, Case
from cases_memory import Cuda, Dlpack

REPEATS = 200


class Leaks(Case):
    def setUp(self):
        super().setUp()
        self.target = bytearray(LEN)

    def grows(self, call):
        """Blocks that Python has more after so many calls."""
        gc.collect()
        blocks = sys.getallocatedblocks()
        for _ in range(REPEATS):
            call()
        gc.collect()
        return sys.getallocatedblocks() - blocks

    def never(self, call):
        """Python's own caches grow now and then; what a call leaks, each of the rounds leaks."""
        for _ in range(20):
            call()
        references = sys.getrefcount(self.domain)
        self.assertLess(min(self.grows(call) for _ in range(4)), REPEATS // 2)
        self.assertEqual(sys.getrefcount(self.domain), references)

    def none_is_left(self):
        self.domain.flush()
        self.assertEqual(self.domain.stats().regions, 0)

    def raises(self, kind, call):
        def attempt():
            try:
                call()
            except kind:
                return
            self.fail("nothing was raised")
        self.never(attempt)

    def test_regions(self):
        self.never(lambda: self.domain.get(self.target, BOTH).put())
        self.never(lambda: self.domain.get(self.target, BOTH))
        self.never(lambda: self.domain.reg(self.target, BOTH))
        self.none_is_left()

    def test_results(self):
        region = self.domain.get(self.target, BOTH)
        for call in (region.keys, region.info, region.explain, region.pack, lambda: region.key, self.domain.info,
                     self.domain.explain, lambda: self.domain.plan(LEN), self.lib.monitor,
                     lambda: self.lib.query(self.target), lambda: region.domain):
            self.never(call)
        region.put()

    def test_remotes(self):
        def transfer():
            with self.domain.get(self.target, BOTH) as region, self.peer.open_remote(region.pack()) as remote:
                remote.write(b"x")
                remote.info()
                remote.check(region.pack())
        self.never(transfer)
        self.none_is_left()

    def test_domains_and_libraries(self):
        def group():
            with self.lib.group([self.domain, self.peer]) as group, group.get(self.target, BOTH) as region:
                for remote in group.open_rails(region.pack()):
                    remote.close()
        self.never(group)
        self.never(lambda: hmreg.open().loopback().get(self.target, BOTH))

    def test_nics(self):
        def group():
            with self.lib.loopback() as first, self.lib.loopback() as second, self.lib.group([first]) as group:
                group.withdraw(0, "why")
                group.replace(0, second)
                while group.member(0).state != "present":
                    pass
                group.close()
        self.never(group)
        self.raises(hmreg.HmregError, lambda: self.domain.replace(0, self.peer))
        self.raises(hmreg.HmregError, lambda: self.domain.member(0))

        def sleep():
            with self.domain.get(self.target, BOTH):
                self.lib.hibernate()
                self.lib.thaw()
        self.never(sleep)

    def test_memory(self):
        cuda, dlpack = Cuda(bytearray(LEN)), Dlpack(bytearray(LEN))
        self.never(lambda: self.domain.get(cuda, BOTH).put())
        self.never(lambda: self.domain.get(dlpack, BOTH).put())
        self.assertEqual(dlpack.ended, 4 * REPEATS + 20)
        self.none_is_left()

    def test_failures(self):
        odd = Cuda(bytearray(LEN), strides=(1, 1))
        self.raises(hmreg.HmregError, lambda: self.domain.get(self.target, 0))
        self.raises(hmreg.HmregError, lambda: self.domain.reg(self.target, 1))
        self.raises(hmreg.HmregError, lambda: self.peer.open_remote(b"no"))
        self.raises(hmreg.HmregError, lambda: self.lib.loopback(flags=1 << 31))
        self.raises(hmreg.HmregError, lambda: self.lib.group([]))
        self.raises(OverflowError, lambda: self.domain.get(self.target, -1))
        self.raises(OverflowError, lambda: self.domain.reg(self.target, BOTH, flags=-1))
        self.raises(OverflowError, lambda: self.domain.get((1, -1), BOTH))
        self.raises(OverflowError, lambda: self.lib.group([self.domain], -1))
        self.raises(BufferError, lambda: self.domain.get(Dlpack(self.target, bits=4), BOTH))
        self.raises(BufferError, lambda: self.domain.get(Dlpack(self.target, device=4), BOTH))
        self.raises(hmreg.HmregError, lambda: self.domain.get(Dlpack(self.target), 0))
        self.raises(BufferError, lambda: self.domain.get(b"x", BOTH))
        self.raises(BufferError, lambda: self.domain.get(odd, BOTH))
        self.raises(TypeError, lambda: self.domain.get(7, BOTH))
        self.raises(TypeError, lambda: self.lib.loopback(nothing=1))
        self.none_is_left()
