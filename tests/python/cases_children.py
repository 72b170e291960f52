# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Processes of multiprocessing: a forked child's calls on its parent's objects fail and touch nothing."""
import errno
import multiprocessing
import os

import hmreg
from cases_memory import Cuda
from common import BOTH, LEN, Case


def own_library():
    """What any process does with a library of its own."""
    target = bytearray(LEN)
    with hmreg.open() as lib, lib.loopback() as domain, domain.get(target, BOTH) as region:
        with domain.open_remote(region.pack()) as remote:
            remote.write(b"child")
    return bytes(target[:5])


def error_of(call):
    try:
        call()
    except hmreg.HmregError as error:
        return error.errno
    return 0


def spawned(token, pipe):
    with hmreg.open() as lib, lib.loopback() as domain:
        pipe.send((own_library(), error_of(lambda: domain.open_remote(token))))


class Children(Case):
    def run_child(self, kind, target, *args):
        context = multiprocessing.get_context(kind)
        here, there = context.Pipe()
        child = context.Process(target=target, args=(*args, there))
        child.start()
        there.close()
        answer = here.recv()
        child.join()
        self.assertEqual(child.exitcode, 0)
        return answer

    def test_forked_child(self):
        class Failing(Cuda):
            def __del__(self):
                error_of(hmreg.explain)
        region, remote_target = self.domain.get(bytearray(LEN), BOTH), bytearray(LEN)
        failing = self.domain.reg(Failing(bytearray(LEN)), BOTH)
        explicit = self.domain.reg(remote_target, BOTH)
        remote = self.peer.open_remote(explicit.pack())

        def child(pipe):
            calls = (lambda: self.domain.get(bytearray(LEN), BOTH), region.pack, region.keys, region.info,
                     lambda: remote.write(b"x"), self.domain.stats, self.domain.flush, explicit.put,
                     self.domain.close, self.lib.close, self.lib.loopback)
            answers = [error_of(call) for call in calls]
            values = region.key, region.desc, region.len, region.generation == generation
            try:
                failing.put()
            except hmreg.HmregError as error:
                values += (error.text,)
            region.put()
            pipe.send((answers, values, own_library()))

        key, generation = region.key, region.generation
        answers, values, written = self.run_child("fork", child)
        self.assertEqual(set(answers), {errno.EPERM}, answers)
        self.assertEqual(values[:4], (key, 0, LEN, True))
        self.assertIn("forked child", values[4])  # not what the end of its memory failed with
        self.assertEqual(written, b"child")
        remote.write(b"parent")
        self.assertEqual(remote_target[:6], b"parent")
        for each in remote, region, explicit, failing:
            each.close()

    def test_forked_child_that_frees_everything(self):
        lib = hmreg.open()
        held = [lib]
        held.append(held[0].loopback())
        held.append(held[1].get(bytearray(LEN), BOTH))
        child = os.fork()
        if not child:
            lib = None
            held.clear()
            os._exit(0 if own_library() == b"child" else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(held[1].stats().regions, 1)

    def test_spawned_child(self):
        with self.domain.get(bytearray(LEN), BOTH) as region:
            written, error = self.run_child("spawn", spawned, region.pack())
        self.assertEqual((written, error), (b"child", errno.EHOSTUNREACH))
