# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""In the guest: two processes on pyverbs; one writes the other's bytearray by its token, twice: in between both hibernate,
close their devices and open them anew. over_verbs.py DEVICE"""
import multiprocessing
import sys

LEN = 1 << 16
GID_INDEX = 1


class Side:
    """A device, its protection domain, a queue pair, and hmreg's domain on it."""

    def __init__(self, device):
        import hmreg
        self.device = device
        self.open_device()
        self.lib = hmreg.open()
        self.domain = self.lib.verbs(self.pd)

    def open_device(self):
        import pyverbs.enums as e
        from pyverbs.cq import CQ
        from pyverbs.device import Context
        from pyverbs.pd import PD
        from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
        self.e = e
        self.context = Context(name=self.device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 4)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=1, max_recv_wr=1))
        self.attr = QPAttr(port_num=1)
        self.attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
        self.qp = QP(self.pd, init, self.attr)

    def sleep_and_wake(self):
        self.lib.hibernate()
        for each in self.qp, self.cq, self.pd, self.context:
            each.close()
        self.open_device()
        self.domain.renew(self.pd)
        self.lib.thaw()

    def card(self):
        return self.qp.qp_num, self.context.query_gid(1, GID_INDEX).gid

    def connect(self, number, gid):
        from pyverbs.addr import GID, AHAttr, GlobalRoute
        attr = self.attr
        attr.dest_qp_num, attr.path_mtu, attr.timeout, attr.retry_cnt, attr.rnr_retry = (
            number, self.e.IBV_MTU_1024, 14, 7, 7)
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=GID_INDEX))
        self.qp.to_rts(attr)

    def write(self, region, address, key):
        from pyverbs.wr import SGE, SendWR
        wr = SendWR(num_sge=1, sg=[SGE(region.addr, region.len, region.keys()[0].lkey)],
                    opcode=self.e.IBV_WR_RDMA_WRITE, send_flags=self.e.IBV_SEND_SIGNALED)
        wr.set_wr_rdma(key, address)
        self.qp.post_send(wr)
        count = 0
        while not count:
            count, completions = self.cq.poll(1)
        return completions[0].status

    def close(self):
        self.domain.close()
        self.lib.close()


def connect(side, pipe):
    pipe.send(side.card())
    side.connect(*pipe.recv())


def owner(device, pipe):
    import hmreg
    side, target, statuses, texts = Side(device), bytearray(LEN), [], []
    connect(side, pipe)
    with side.domain.get(target, hmreg.REMOTE_WRITE) as region:
        for again in True, False:
            pipe.send(region.pack())
            statuses.append(pipe.recv())
            texts.append(bytes(target))
            if again:
                side.sleep_and_wake()
                connect(side, pipe)
    print("the peer's statuses:", statuses)
    side.close()
    sys.exit(0 if statuses == [0, 0] and texts == [b"\x5a" * LEN, b"\xa5" * LEN] else 1)


def peer(device, pipe):
    import hmreg
    side, source = Side(device), bytearray(b"\x5a" * LEN)
    connect(side, pipe)
    with side.domain.get(source, hmreg.WRITE) as region:
        for again in True, False:
            with side.domain.open_remote(pipe.recv()) as remote:
                pipe.send(side.write(region, *remote.addr(0, LEN)))
            if again:
                source[:] = b"\xa5" * LEN
                side.sleep_and_wake()
                connect(side, pipe)
    side.close()


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    processes = [context.Process(target=each, args=(sys.argv[1], end)) for each, end in ((owner, here), (peer, there))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("exit statuses:", [process.exitcode for process in processes])
    sys.exit(any(process.exitcode for process in processes))
