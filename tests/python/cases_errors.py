# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
import errno
import sys
import types

import hmreg
from cases_memory import Dlpack
from common import BOTH, LEN, Case


class Errors(Case):
    def test_error_has_code_source_text_and_remedy(self):
        with self.fails(errno.EINVAL, "access has no right") as caught:
            self.domain.get(bytearray(LEN), 0)
        error = caught.exception
        self.assertEqual((error.code, error.errno, error.source), (-errno.EINVAL, errno.EINVAL, "hmreg"))
        self.assertEqual((error.vendor_code, error.vendor_text, error.strerror), (0, "", error.text))
        self.assertTrue(error.remedy.startswith("it must have"), error.remedy)
        self.assertIsInstance(error, OSError)

    def test_what_is_open_is_not_closed(self):
        region = self.domain.get(bytearray(LEN), BOTH)
        with self.fails(errno.EBUSY):
            self.lib.close()
        with self.fails(errno.EBUSY):
            self.domain.close()
        self.assertFalse(self.domain.closed)
        region.put()

    def test_member_of_a_group_is_not_closed(self):
        group = self.lib.group((self.domain, self.peer))
        with self.fails(errno.EBUSY):
            self.domain.close()
        group.close()

    def test_closed_objects_are_refused(self):
        lib = hmreg.open()
        domain = lib.loopback()
        region = domain.get(bytearray(LEN), BOTH)
        remote = domain.open_remote(region.pack())
        for each in remote, region, domain, lib:
            each.close()
        for call in (remote.info, region.info, region.pack, region.keys, lambda: region.key, domain.stats,
                     lambda: domain.get(bytearray(LEN), BOTH), lib.loopback, lib.monitor):
            with self.fails(errno.EINVAL, "closed"):
                call()

    def test_exception_of_a_with_statement_is_what_comes_out(self):
        held = []
        with self.assertRaises(KeyError):
            with self.lib.loopback() as domain:
                held.append(domain.get(bytearray(LEN), BOTH))
                raise KeyError
        self.assertFalse(domain.closed)
        held.pop().put()
        domain.close()

    def test_tokens(self):
        with self.domain.get(bytearray(LEN), hmreg.SEND) as region, self.fails(errno.EACCES):
            region.pack()
        with self.fails(errno.EBADMSG):
            self.peer.open_remote(b"no token")
        with self.domain.get(bytearray(LEN), BOTH) as region:
            with self.peer.open_remote(region.pack()) as remote, self.fails(errno.ERANGE):
                remote.write(b"x", LEN)

    def test_error_is_that_of_the_call(self):
        """Not of what the end of its memory does."""
        class Failing(Dlpack):
            def end(self, capsule):
                super().end(capsule)
                try:
                    lib.loopback(flags=1 << 31)
                except hmreg.HmregError:
                    pass
        lib, memory = self.lib, Failing(bytearray(LEN))
        with self.domain.get(bytearray(LEN), BOTH) as region, self.peer.open_remote(region.pack()) as remote:
            with self.fails(errno.ERANGE, "region"):
                remote.write(memory, LEN)
        with self.fails(errno.EINVAL, "unknown bits"):
            self.domain.get(memory, 1)
        with self.fails(errno.ENOENT, "hmreg_suspend()"):
            self.lib.resume(memory)
        self.assertEqual(memory.ended, 3)

    def test_wrong_arguments(self):
        for call in (lambda: self.domain.get(bytearray(LEN)), lambda: self.domain.get(object(), BOTH),
                     lambda: self.domain.get((1, 2, 3), BOTH), lambda: self.lib.loopback(no_such=1),
                     lambda: self.lib.group([1]), lambda: self.lib.loopback(1), hmreg.Region):
            with self.assertRaises(TypeError):
                call()
        for call in (lambda: hmreg.open("none"), lambda: self.domain.explain("none")):
            with self.assertRaises(ValueError):
                call()
        region = self.domain.get(bytearray(LEN), BOTH)
        remote = self.peer.open_remote(region.pack())
        for wrong in -1, 1 << 64, (1 << 64) + BOTH:
            for call in (lambda: self.domain.get(bytearray(LEN), wrong), lambda: self.domain.reg(bytearray(LEN), wrong),
                         lambda: self.domain.reg(bytearray(LEN), BOTH, wrong), lambda: self.domain.plan(wrong),
                         lambda: self.domain.reg(bytearray(LEN), BOTH, flags=wrong), lambda: remote.addr(wrong, 1),
                         lambda: remote.addr(0, wrong), lambda: remote.write(b"x", wrong),
                         lambda: self.domain.get((wrong, 1), BOTH), lambda: self.domain.get((region.addr, wrong), BOTH),
                         lambda: hmreg.open(fork_max_bytes=wrong), lambda: hmreg.open(ifaces=wrong),
                         lambda: self.lib.loopback(max_bytes=wrong), lambda: self.lib.group([self.domain], wrong),
                         lambda: hmreg.torch_hook(self.domain, wrong, 0, 0)):
                with self.assertRaises(OverflowError):
                    call()
        for call in (lambda: self.lib.loopback(flags=1 << 32), lambda: hmreg.open(ifaces=1 << 32)):
            with self.assertRaises(OverflowError):
                call()
        for rail in 1, -2:
            with self.fails(errno.ENOENT):
                region.info(rail)
        remote.close()
        region.put()
        with self.fails(errno.EINVAL):
            self.lib.group([])
        with self.fails(errno.EINVAL):
            self.lib.verbs(0)
        with self.fails(errno.ENOENT):
            hmreg.explain()
        with self.fails(errno.ENOENT):
            self.lib.resume(bytearray(LEN))

    def test_pyverbs_that_is_laid_out_otherwise(self):
        class Base:
            __slots__ = ()

        class PD(Base):
            __slots__ = ("first", "handle")
        module = types.ModuleType("pyverbs.pd")
        module.PD, pd = PD, PD()
        sys.modules["pyverbs.pd"] = module
        self.addCleanup(sys.modules.pop, "pyverbs.pd")
        with self.fails(errno.EINVAL):  # closed
            self.lib.verbs(pd)
        pd.first, pd.handle = object(), 1
        with self.assertRaisesRegex(TypeError, "unknown"):
            self.lib.verbs(pd)

    def test_object_in_place_of_an_address(self):
        class Odd:
            pd = 0
        with self.fails(errno.EINVAL):
            self.lib.verbs(Odd())
        with self.assertRaises(AttributeError):
            self.lib.ofi(Odd(), 0)
