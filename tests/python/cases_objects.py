# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
import errno
import pickle

import hmreg
from common import BOTH, LEN, Case


class Objects(Case):
    def test_a_token_reaches_the_memory(self):
        target = bytearray(LEN)
        with self.domain.get(target, BOTH) as region, self.peer.open_remote(region.pack()) as remote:
            remote.write(b"written", 5)
            read = bytearray(7)
            remote.read(read, 5)
            self.assertEqual(remote.info(), (LEN, BOTH, 1, "system"))
            self.assertEqual(remote.addr(8, 1)[1], region.key)
        self.assertEqual(target[5:12], b"written")
        self.assertEqual(read, b"written")

    def test_a_second_get_is_a_hit(self):
        target = bytearray(LEN)
        for _ in range(3):
            self.domain.get(target, BOTH).put()
        stats = self.domain.stats()
        self.assertEqual((stats.misses, stats.hits, stats.regions, stats.bytes), (1, 2, 1, LEN))
        self.assertEqual(len(stats.reg_times), 40)
        self.domain.flush()
        self.assertEqual(self.domain.stats().regions, 0)

    def test_reg_is_not_cached(self):
        target = bytearray(LEN)
        with self.domain.reg(target, BOTH, requested_key=7) as region:
            self.assertEqual(region.key, 7)
            self.assertFalse(region.info().cached)
        self.assertEqual(self.domain.stats().misses, 0)

    def test_region_says_what_it_is(self):
        target = bytearray(LEN)
        with self.domain.get(target, BOTH) as region:
            info = region.info()
            self.assertEqual((info.iface, info.device, info.path, info.access, info.cached),
                             ("system", -1, "system", BOTH, 1))
            self.assertEqual((region.addr, region.len, region.domain), (info.addr, LEN, self.domain))
            self.assertEqual(region.keys(), ((0, region.key, 0, 0, 0),))
            self.assertEqual(region.desc, 0)
            self.assertEqual(region.explain().reasons, ())

    def test_without_remote_access_there_is_no_key(self):
        with self.domain.get(bytearray(LEN), hmreg.SEND) as region:
            self.assertIsNone(region.key)
            self.assertIsNone(region.keys()[0].key)

    def test_domain_says_what_it_is(self):
        info = self.lib.loopback(max_regions=5, max_len=LEN, mr_mode=hmreg.MR_PROV_KEY).info()
        self.assertEqual((info.provider, info.max_regions, info.max_len, info.mr_mode, info.pci),
                         ("loopback", 5, LEN, hmreg.MR_PROV_KEY, None))
        self.assertEqual(info.lost, "")
        with self.fails(errno.EINVAL, "sync_memops"):
            self.lib.loopback(sync_memops=7)
        self.lib.loopback(sync_memops=hmreg.CHOICE_ON).close()
        self.assertIs(self.domain.library, self.lib)
        self.assertEqual(self.domain.explain().path, "system")
        self.assertEqual(len(self.domain.explain("cuda", 0).reasons) if self.has_cuda() else 0, 0)

    def has_cuda(self):
        try:
            self.domain.explain("cuda", 0)
        except hmreg.HmregError:
            return False
        return True

    def test_plan(self):
        plan = self.lib.loopback(max_len=1 << 21).plan(1 << 22)
        self.assertEqual((plan.len, plan.regions, plan.path, len(plan.limits)), (1 << 22, 2, "system", 7))
        self.assertEqual(plan.limits[0].limit, 1 << 21)

    def test_library_says_what_it_is(self):
        with self.domain.get(bytearray(LEN), BOTH):
            self.assertNotEqual(self.lib.monitor().active, "default")
        self.assertEqual(self.lib.query(bytearray(LEN)).kind, "host")
        self.assertEqual(hmreg.version, hmreg.__version__)

    def test_group_has_a_rail_on_each_member(self):
        target = bytearray(LEN)
        with self.lib.group([self.domain, self.peer]) as group, group.get(target, BOTH) as region:
            self.assertIsNone(region.key)
            self.assertEqual([keys.key for keys in region.keys()], [remote.addr(0, 1)[1] for remote in
                                                                    group.open_rails(region.pack())])
            self.assertEqual(region.info(1).path, "system")

    def test_one_rail_of_a_group(self):
        target = bytearray(LEN)
        with self.lib.group([self.domain, self.peer]) as group, group.get(target, BOTH) as region:
            token = region.pack()
            for rail in 0, 1:
                with self.peer.open_remote(token, rail) as remote:
                    self.assertEqual(remote.addr(0, 1)[1], region.keys()[rail].key)
            for rail, number in ((2, errno.ENOENT), (None, errno.EXDEV)):
                with self.fails(number):
                    self.peer.open_remote(token, rail)
            with self.assertRaises(OverflowError):
                self.peer.open_remote(token, -1)

    def test_open_rails_of_a_single_domain(self):
        with self.domain.get(bytearray(LEN), BOTH) as region:
            self.assertEqual(len(self.peer.open_rails(region.pack())), 1)

    def test_suspended_region_has_new_keys(self):
        target = bytearray(LEN)
        with self.domain.get(target, BOTH) as region:
            remote, generation, token = self.peer.open_remote(region.pack()), region.generation, region.pack()
            self.assertEqual(remote.check(token), "current")
            self.lib.suspend(target)
            self.assertIsNone(region.keys()[0].key)
            self.lib.resume(target)
            self.assertNotEqual(region.generation, generation)
            self.assertEqual(remote.check(region.pack()), "renewed")
            remote.renew(region.pack())
            remote.write(b"again")
            remote.close()
        self.assertEqual(target[:5], b"again")

    def test_invalidated_memory_is_registered_anew(self):
        target = bytearray(LEN)
        self.domain.get(target, BOTH).put()
        self.lib.invalidate(target)
        self.domain.get(target, BOTH).put()
        self.domain.progress()
        self.assertEqual(self.domain.stats().misses, 2)

    def test_local_region_where_the_domain_demands_one(self):
        target, source = bytearray(LEN), bytearray(b"x" * LEN)
        with self.lib.loopback(mr_mode=hmreg.MR_LOCAL) as peer, self.domain.get(target, BOTH) as region:
            remote = peer.open_remote(region.pack())
            with self.assertRaises(hmreg.HmregError):
                remote.write(source)
            with peer.get(source, hmreg.WRITE) as local:
                remote.write(source, 0, local)
            remote.close()
        self.assertEqual(target, source)

    def test_region_is_optional(self):
        target = bytearray(LEN)
        with self.domain.get(target, BOTH) as region, self.peer.open_remote(region.pack()) as remote:
            remote.write(b"x", 0, None)
            with self.assertRaises(TypeError):
                remote.write(b"y", 0, target)
        self.assertEqual(target[:2], b"x\0")

    def test_closing_twice_has_no_effect(self):
        region = self.domain.get(bytearray(LEN), BOTH)
        remote = self.peer.open_remote(region.pack())
        lib = hmreg.open()
        for each in remote, region, lib:
            self.assertFalse(each.closed)
            each.close()
            each.close()
            self.assertTrue(each.closed)

    def test_order_of_frees_is_kept(self):
        lib = hmreg.open()
        domain = lib.loopback()
        region = domain.get(bytearray(LEN), BOTH)
        del lib, domain
        self.assertEqual(region.domain.stats().regions, 1)
        region.put()

    def test_results_are_pickled_and_objects_are_not(self):
        self.assertEqual(pickle.loads(pickle.dumps(self.domain.stats())), self.domain.stats())
        for each in self.lib, self.domain, self.domain.get(bytearray(LEN), BOTH):
            with self.assertRaises(TypeError):
                pickle.dumps(each)
