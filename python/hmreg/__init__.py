# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Register any memory (host, CUDA, ROCm, Level Zero) with any RDMA fabric, and remember it safely.

    with hmreg.open() as lib, lib.loopback() as domain:
        with domain.get(buffer, hmreg.REMOTE_WRITE) as region:
            send_to_peer(region.pack())

Calls that fail raise HmregError; addresses, lengths and offsets are in bytes; any thread may call anything. The
names of constants are those of C without HMREG_.
"""
from ._hmreg import *  # noqa: F401,F403
from ._hmreg import version as __version__  # noqa: F401
