# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Domains whose NICs go and come: hibernating, lost domains, the members of groups."""
import errno
import gc
import sys
import threading

import hmreg
from common import BOTH, LEN, Case, Gate, waits_for


def closes(domain):
    """A lost domain's own thread deregisters: it is closed once that has ended."""
    try:
        domain.close()
    except hmreg.HmregError as error:
        if error.errno != errno.EBUSY:
            raise
    return domain.closed


class Hibernating(Case):
    def test_region_is_the_same_and_its_keys_are_new(self):
        target = bytearray(LEN)
        with self.domain.get(target, BOTH) as region, self.peer.open_remote(region.pack()) as before:
            generation = region.generation
            self.lib.hibernate()
            self.lib.hibernate()
            self.assertIsNone(region.key)
            for call in region.pack, lambda: self.domain.get(target, BOTH), lambda: self.domain.reg(target, BOTH):
                with self.fails(errno.EAGAIN):
                    call()
            self.lib.thaw()
            self.assertNotEqual(region.generation, generation)
            self.assertEqual(before.check(region.pack()), "other life")
            with self.peer.open_remote(region.pack()) as remote:
                remote.write(b"awake")
        self.assertEqual(target[:5], b"awake")

    def test_library_that_does_not_hibernate(self):
        with self.fails(errno.ENOENT):
            self.lib.thaw()

    def test_what_must_end_first(self):
        with self.lib.loopback(mr_mode=hmreg.MR_RAW) as domain, domain.get(bytearray(LEN), BOTH) as region:
            with domain.open_remote(region.pack()), self.fails(errno.EBUSY, "loopback"):
                self.lib.hibernate()

    def test_region_that_is_put_while_asleep(self):
        target = bytearray(LEN)
        region = self.domain.get(target, BOTH)
        self.lib.hibernate()
        region.put()
        target.clear()
        self.lib.thaw()
        self.assertEqual(self.domain.stats().regions, 0)

    def test_domain_keeps_what_it_was_renewed_with(self):
        gates = [Gate(open=1), Gate(open=1)]

        def references():
            return [sys.getrefcount(each) for each in gates]

        def kept():
            return [now - then for now, then in zip(references(), before)]
        before = references()
        with self.lib.verbs(gates[0]) as domain:
            self.assertEqual(kept(), [1, 0])
            domain.renew(gates[1])
            self.assertEqual(kept(), [0, 1])
            with self.fails(errno.EINVAL):
                domain.renew(0)
            self.assertEqual(kept(), [0, 1])
        self.assertEqual(kept(), [0, 0])
        with self.fails(errno.EINVAL, "closed"):
            domain.renew(gates[0])
        with self.assertRaises(AttributeError):
            self.domain.renew(object())

    def test_domain_in_use_is_not_renewed(self):
        gate = Gate()
        with self.lib.verbs(gate) as domain:
            thread = threading.Thread(target=lambda: domain.get(bytearray(LEN), BOTH).put())
            thread.start()
            gate.reached(0)
            with self.fails(errno.EBUSY, "another thread"):
                domain.renew(gate)
            gate.open = 1
            thread.join()


class Lost(Case):
    def test_lost_domain(self):
        region = self.domain.get(bytearray(LEN), BOTH)
        self.domain.lost("pulled")
        self.domain.lost("twice")
        self.assertEqual(self.domain.info().lost, "pulled")
        with self.fails(errno.ENODEV, "pulled"):
            self.domain.get(bytearray(LEN), BOTH)
        region.put()
        waits_for(lambda: closes(self.domain))
        self.peer.lost()
        self.assertTrue(self.peer.info().lost)
        with self.lib.loopback() as member, self.lib.group([member]) as group, self.fails(errno.EINVAL):
            group.lost()


class Groups(Case):
    def setUp(self):
        super().setUp()
        self.group = self.lib.group([self.domain, self.peer])
        self.target = bytearray(LEN)

    def close(self):
        self.group.close()
        super().close()

    def replace(self, member, domain):
        self.group.replace(member, domain)
        waits_for(lambda: self.group.member(member).state == "present")

    def test_members(self):
        self.assertEqual(self.group.member(1), ("present", self.peer, 0, 0, 0, ""))
        for number in 2, (1 << 64) - 1:
            with self.fails(errno.EINVAL):
                self.group.member(number)
        for call in (lambda: self.domain.member(0), lambda: self.domain.withdraw(0, "why"),
                     lambda: self.domain.replace(0, self.peer), lambda: self.group.replace(0, self.peer)):
            with self.fails(errno.EINVAL):
                call()

    def test_withdrawn_member_is_replaced(self):
        with self.group.get(self.target, BOTH) as region, self.lib.loopback() as spare:
            generation = region.generation
            self.group.withdraw(1, "pulled")
            self.assertEqual(self.group.member(1), ("withdrawn", self.peer, 0, 0, 0, "pulled"))
            self.assertEqual([keys.key is None for keys in region.keys()], [False, True])
            self.replace(1, spare)
            self.assertEqual(self.group.member(1), ("present", spare, 1, 1, 0, "pulled"))
            self.assertNotEqual(region.generation, generation)
            first, second = self.group.open_rails(region.pack())
            second.write(b"rail")
            first.close()
            second.close()
            region.put()
            self.group.close()
        self.assertEqual(self.target[:4], b"rail")

    def test_group_goes_on_without_a_lost_member(self):
        with self.group.get(self.target, BOTH) as region:
            self.peer.lost("gone")
            self.assertEqual(self.group.member(1)[::5], ("withdrawn", "gone"))
            self.assertIsNone(region.keys()[1].key)
        self.group.close()
        waits_for(lambda: closes(self.peer))

    def test_group_keeps_its_members(self):
        """Those of before too: they have registrations of its regions."""
        spare, self.peer = self.lib.loopback(), self.peer
        before, old = sys.getrefcount(spare), sys.getrefcount(self.peer)
        with self.fails(errno.EINVAL, "withdrawn"):
            self.group.replace(1, spare)
        self.assertEqual(sys.getrefcount(spare), before)
        self.group.withdraw(1, "pulled")
        self.replace(1, spare)
        self.assertEqual((sys.getrefcount(spare), sys.getrefcount(self.peer)), (before + 1, old))
        with self.fails(errno.EBUSY):
            spare.close()
        del spare
        gc.collect()
        self.assertEqual(self.group.member(1).domain.info().provider, "loopback")
        self.assertEqual(len(self.group.open_rails(self.group.get(self.target, BOTH).pack())), 2)

    def test_group_does_not_own_its_members(self):
        with self.fails(hmreg.EBADFLAGS):
            self.lib.group([self.domain], 2)
        self.group.close()
        with self.fails(hmreg.EBADFLAGS):
            self.lib.group([self.domain], 2 | hmreg.GROUP_PARTIAL)
        self.assertEqual(self.domain.info().provider, "loopback")
