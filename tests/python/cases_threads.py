# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Calls that wait give up the GIL; objects in use are not closed; threads, and the garbage collector among them."""
import collections
import errno
import gc
import os
import random
import sys
import threading

import hmreg
from common import BOTH, LEN, Case, Gate

ROUNDS = 3000 // int(os.environ.get("HMREG_TEST_PART", "1")) * 10 + 300


class Waiting(Case):
    def setUp(self):
        super().setUp()
        self.gate = Gate()
        self.gated = self.lib.verbs(self.gate, policy=hmreg.POLICY_LAST_PUT)

    def close(self):
        self.gate.open = 1
        self.gated.close()
        super().close()

    def during(self, call, *args):
        """Starts the call on a thread, which waits at the gate when this returns."""
        results, passed = [], self.gate.passed
        thread = threading.Thread(target=lambda: results.append(call(*args)))
        thread.start()
        self.gate.reached(passed)
        return thread, results

    def test_get_gives_up_the_gil(self):
        thread, results = self.during(self.gated.get, bytearray(LEN), BOTH)
        self.gate.open = 1
        thread.join()
        results[0].put()

    def test_put_gives_up_the_gil(self):
        self.gate.open = 1
        region = self.gated.get(bytearray(LEN), BOTH)
        self.gate.open = 0
        thread, _ = self.during(region.put)
        self.gate.open = 1
        thread.join()

    def test_free_gives_up_the_gil(self):
        self.gate.open = 1
        regions = [self.gated.get(bytearray(LEN), BOTH)]
        self.gate.open = 0
        thread, _ = self.during(regions.clear)
        self.gate.open = 1
        thread.join()

    def test_domain_in_use_is_not_closed(self):
        thread, results = self.during(self.gated.get, bytearray(LEN), BOTH)
        with self.fails(errno.EBUSY, "another thread"):
            self.gated.close()
        self.gate.open = 1
        thread.join()
        results[0].put()

    def test_buffer_is_held_during_the_get(self):
        target = bytearray(LEN)
        thread, results = self.during(self.gated.get, target, BOTH)
        with self.assertRaises(BufferError):
            target.clear()
        self.gate.open = 1
        thread.join()
        results[0].put()

    def test_buffer_is_held_during_the_put(self):
        target = bytearray(LEN)
        self.gate.open = 1
        region = self.gated.get(target, BOTH)
        self.gate.open = 0
        thread, _ = self.during(region.put)
        with self.assertRaises(BufferError):
            target.clear()
        self.assertTrue(region.closed)
        region.put()
        self.gate.open = 1
        thread.join()
        target.clear()

    def test_object_with_a_domain_may_be_a_tuple(self):
        gate = Gate(open=1)
        pair = collections.namedtuple("Pair", "pd other")(gate.pd, None)
        with self.lib.verbs(pair) as domain, domain.get(bytearray(LEN), BOTH) as region:
            rail, = domain.open_rails(region.pack())
            rail.close()


class Hits(Case):
    def keeps_the_gil(self, target):
        """Another thread waits for the GIL, and does not ask for it before the switch interval is over."""
        held, ran = threading.Lock(), []

        def wait():
            held.acquire()
            ran.append(True)
        thread = threading.Thread(target=wait)
        held.acquire()
        thread.start()
        self.domain.get(target, BOTH).put()
        held.release()
        for _ in range(20000):
            self.domain.get(target, BOTH).put()
        kept = not ran
        thread.join()
        return kept

    def test_hit_keeps_the_gil(self):
        """Once of five times: a get after a change of the process's mappings reads that, and may wait."""
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        target = bytearray(LEN)
        self.domain.get(target, BOTH).put()
        sys.setswitchinterval(1000)
        self.assertTrue(any(self.keeps_the_gil(target) for _ in range(5)))
        self.assertGreaterEqual(self.domain.stats().hits, 20000)


class Stress(Case):
    """Each thread gets, holds, drops and transfers at random, some leave regions to the garbage collector."""

    def setUp(self):
        super().setUp()
        self.failures = []
        self.shared = [bytearray(LEN) for _ in range(8)]

    def step(self, choice, held):
        buffer = choice.choice(self.shared) if choice.random() < 0.7 else bytearray(choice.randrange(1, LEN))
        action = choice.randrange(8)
        if action < 4:
            self.domain.get(buffer, BOTH).put()
        elif action == 4:
            held[choice.randrange(len(held))] = self.domain.get(buffer, BOTH)
        elif action == 5:
            cycle = [self.domain.reg(buffer, BOTH)]
            cycle.append(cycle)
        elif action == 6:
            with self.domain.get(buffer, BOTH) as region, self.peer.open_remote(region.pack()) as remote:
                remote.write(b"x")
        else:
            choice.choice((self.domain.stats, self.domain.flush, self.domain.progress, gc.collect))()

    def work(self, seed):
        choice, held = random.Random(seed), [None] * 4
        try:
            for _ in range(ROUNDS):
                self.step(choice, held)
        except BaseException as failure:
            self.failures.append(failure)

    def test_threads_and_garbage(self):
        threads = [threading.Thread(target=self.work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.failures, [])
        gc.collect()
        self.domain.flush()
        stats = self.domain.stats()
        self.assertEqual((stats.regions, stats.bytes, stats.retired), (0, 0, 0))
        self.assertFalse([each for each in gc.get_objects() if isinstance(each, (hmreg.Region, hmreg.Remote))])
        for buffer in self.shared:
            buffer.clear()
