# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
from types import TracebackType
from typing import Any, NamedTuple, Optional, Tuple, Type, TypeVar, Union, overload

Self = TypeVar("Self", bound="_Closable")
# An object with the buffer protocol, __cuda_array_interface__ or __dlpack__(), or (address, length in bytes).
Memory = Any
Token = Union[bytes, bytearray, memoryview]

version: str
__version__: str

class HmregError(OSError):
    code: int
    source: str
    vendor_code: int
    vendor_text: str
    text: str
    remedy: str

class Stats(NamedTuple):
    hits: int
    misses: int
    evictions: int
    invalidations: int
    uncached: int
    regions: int
    bytes: int
    retired: int
    caches: int
    shown: int
    evicted_limit: int
    evicted_memory: int
    evicted_room: int
    evicted_keys: int
    failures: int
    regions_max: int
    bytes_max: int
    waits: int
    waiting: int
    reg_ns: int
    reg_longest_ns: int
    reg_times: Tuple[int, ...]
    wrong_puts: int
    gave_explicit: int
    gave_others: int

class DomainInfo(NamedTuple):
    provider: str
    fabric: str
    mr_mode: int
    key_size: int
    iov_limit: int
    max_len: int
    max_regions: int
    max_bytes: int
    nic: str
    pci: Optional[str]
    lost: str

class MemoryInfo(NamedTuple):
    iface: str
    device: int
    pci: Optional[str]
    kind: str
    flags: int
    segments: int
    alloc_base: int
    alloc_len: int
    identity: int
    host_addr: int

class RegionInfo(NamedTuple):
    iface: str
    device: int
    path: str
    addr: int
    len: int
    access: int
    identity: int
    local_addr: int
    cached: int
    way: str
    asks: int
    policy: int

class RemoteInfo(NamedTuple):
    len: int
    access: int
    segments: int
    iface: str

class MonitorInfo(NamedTuple):
    asked: str
    active: str
    userfaultfd: int
    events: int
    calls: int
    why: str

class Reason(NamedTuple):
    path: str
    code: int
    vendor_code: int
    slug: str
    text: str

class Explanation(NamedTuple):
    iface: str
    device: int
    path: str
    reasons: Tuple[Reason, ...]
    asks: int
    asks_why: str
    uncached_why: str
    policy: int
    rail_why: str
    room_why: str

class PlanLimit(NamedTuple):
    limit: int
    needed: int
    fits: int
    text: str

class Plan(NamedTuple):
    len: int
    path: str
    regions: int
    region_len: int
    last_len: int
    exports: int
    pinned: int
    fits: int
    cacheable: int
    limits: Tuple[PlanLimit, ...]

class Keys(NamedTuple):
    desc: Optional[int]
    key: Optional[int]
    lkey: Optional[int]
    rkey: Optional[int]
    native: Optional[int]

class Member(NamedTuple):
    state: str
    domain: Optional[Domain]
    regions: int
    done: int
    failed: int
    why: str

class _Closable:
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self: Self) -> Self: ...
    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType], /
    ) -> None: ...

class Library(_Closable):
    def loopback(self, **settings: int) -> Domain: ...
    def verbs(self, pd: Any, /, **settings: int) -> Domain: ...
    def ofi(self, domain: Any, info: Any, /, **settings: int) -> Domain: ...
    def group(self, members: Any, flags: int = 0, /, **settings: int) -> Domain: ...
    def query(self, memory: Memory, /) -> MemoryInfo: ...
    def monitor(self) -> MonitorInfo: ...
    def invalidate(self, memory: Memory, /) -> None: ...
    def suspend(self, memory: Memory, /) -> None: ...
    def resume(self, memory: Memory, /) -> None: ...
    def hibernate(self) -> None: ...
    def thaw(self) -> None: ...

class Domain(_Closable):
    @property
    def library(self) -> Library: ...
    def get(self, memory: Memory, access: int, /) -> Region: ...
    def reg(self, memory: Memory, access: int, requested_key: int = ..., flags: int = 0) -> Region: ...
    def open_remote(self, token: Token, rail: Optional[int] = None, /) -> Remote: ...
    def open_rails(self, token: Token, /) -> list[Optional[Remote]]: ...
    def info(self) -> DomainInfo: ...
    def stats(self) -> Stats: ...
    def explain(self, iface: str = "system", device: int = -1) -> Explanation: ...
    def plan(self, len: int, iface: str = "system", device: int = -1) -> Plan: ...
    def flush(self) -> None: ...
    def progress(self) -> None: ...
    def lost(self, why: str = ..., /) -> None: ...
    def renew(self, native: Any, info: Any = None, /) -> None: ...
    def withdraw(self, member: int, why: str, /) -> None: ...
    def replace(self, member: int, domain: Domain, /) -> None: ...
    def member(self, member: int, /) -> Member: ...

class Region(_Closable):
    @property
    def domain(self) -> Domain: ...
    @property
    def addr(self) -> int: ...
    @property
    def local_addr(self) -> int: ...
    @property
    def len(self) -> int: ...
    @property
    def key(self) -> Optional[int]: ...
    @property
    def desc(self) -> int: ...
    @property
    def generation(self) -> int: ...
    def put(self) -> None: ...
    def pack(self) -> bytes: ...
    def keys(self) -> Tuple[Keys, ...]: ...
    def info(self, rail: int = -1, /) -> RegionInfo: ...
    def explain(self, rail: int = -1, /) -> Explanation: ...

class Remote(_Closable):
    @property
    def domain(self) -> Domain: ...
    def info(self) -> RemoteInfo: ...
    def addr(self, offset: int, len: int, /) -> Tuple[int, int]: ...
    def check(self, token: Token, /) -> str: ...
    def renew(self, token: Token, /) -> None: ...
    def write(self, memory: Memory, offset: int = 0, region: Optional[Region] = None, /) -> None: ...
    def read(self, memory: Memory, offset: int = 0, region: Optional[Region] = None, /) -> None: ...

def open(monitor: str = "default", ifaces: int = 0, fork_max_bytes: int = 0) -> Library: ...
def explain() -> Explanation: ...
@overload
def torch_hook() -> None: ...
@overload
def torch_hook(domain: Domain, access: int, alloc: int, free: int, /) -> Tuple[str, str, str]: ...
def torch_stats() -> Tuple[int, int]: ...

READ: int
WRITE: int
RECV: int
SEND: int
REMOTE_READ: int
REMOTE_WRITE: int
ACCESS_LOCAL: int
ACCESS_REMOTE: int
ACCESS_ALL: int
GET_HOST: int
REG_SINGLE: int
REG_PARTS: int
DOMAIN_EXACT: int
DOMAIN_NO_CACHE: int
DOMAIN_SINGLE: int
DOMAIN_PARTS: int
GROUP_PARTIAL: int
IFACES_STARTED: int
KEY_ANY: int
LIMIT_NONE: int
POLICY_DEFAULT: int
POLICY_KEEP: int
POLICY_LAST_PUT: int
RIGHTS_EXACT: int
RIGHTS_LOCAL: int
RIGHTS_ANY: int
COVER_DEFAULT: int
COVER_EXACT: int
COVER_ALLOCATION: int
COVER_REMOTE: int
CHOICE_DEFAULT: int
CHOICE_OFF: int
CHOICE_ON: int
VERBS_RELAXED_ORDERING: int
VERBS_ON_DEMAND: int
VERBS_MEMORY_WINDOWS: int
VERBS_ATOMICS: int
VERBS_ATOMICS_IF_POSSIBLE: int
MR_LOCAL: int
MR_RAW: int
MR_VIRT_ADDR: int
MR_ALLOCATED: int
MR_PROV_KEY: int
MR_HMEM: int
ETOOSMALL: int
EOPBADSTATE: int
EBADFLAGS: int
ENOKEY: int
