// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
use crate::error::{check, Result};
use crate::{sized, sys, text, Buffer, Domain, RegionInfo};
use std::ops::{BitOr, Bound, RangeBounds};
use std::os::raw::{c_int, c_void};
use std::ptr::{null, null_mut, NonNull};
use std::sync::Arc;

/// Access rights, which `|` joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u64);

impl Access {
    /// The destination of RMA reads that are started locally.
    pub const READ: Access = Access(sys::HMREG_READ);
    /// The source of RMA writes that are started locally.
    pub const WRITE: Access = Access(sys::HMREG_WRITE);
    /// A receive buffer.
    pub const RECV: Access = Access(sys::HMREG_RECV);
    /// A send buffer.
    pub const SEND: Access = Access(sys::HMREG_SEND);
    /// Peers may read it.
    pub const REMOTE_READ: Access = Access(sys::HMREG_REMOTE_READ);
    /// Peers may write it.
    pub const REMOTE_WRITE: Access = Access(sys::HMREG_REMOTE_WRITE);

    fn is_remote(self) -> bool {
        self.0 & sys::HMREG_ACCESS_REMOTE != 0
    }
}

impl BitOr for Access {
    type Output = Access;
    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Why one path was refused.
#[derive(Clone, Debug)]
pub struct Reason {
    /// `HMREG_PATH_*`.
    pub path: sys::hmreg_path,
    /// A negative error number.
    pub code: i32,
    /// The vendor's or the kernel's own code; 0: none.
    pub vendor_code: i64,
    /// The reason's stable name, such as "no-dmabuf-export".
    pub slug: String,
    /// A sentence for the user, with the remedy at its end.
    pub text: String,
}

/// Why a region has its path.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The path taken, `HMREG_PATH_*`.
    pub path: sys::hmreg_path,
    /// Why each better path was refused, in the order they were tried.
    pub reasons: Vec<Reason>,
    /// Why no region of this host memory is cached; "": it is.
    pub uncached_why: String,
}

/// Memory that is registered with a domain, until the region is dropped.
#[derive(Debug)]
pub struct Region {
    raw: NonNull<sys::hmreg_mr>,
    cached: bool,
    addr: *const c_void,
    len: usize,
    domain: Domain,
    memory: Option<Arc<Buffer>>,
}

// SAFETY: any thread may call any function of the library, and release a region that another got.
unsafe impl Send for Region {}
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        if self.cached {
            // SAFETY: the one put of the get that returned it.
            unsafe { sys::hmreg_mr_put(self.raw.as_ptr()) };
            return;
        }
        // SAFETY: the one close of the registration.
        let code = unsafe { sys::hmreg_mr_close(self.raw.as_ptr()) };
        if code == -EBUSY {
            // Something is bound to it by hmreg_sys: it stays registered, and what it needs stays.
            std::mem::forget((self.domain.clone(), self.memory.clone()));
        }
    }
}

const EBUSY: c_int = 16; // Linux's, on every processor

/// The part of the buffer, which is checked as a slice's is.
fn part(buffer: &Buffer, range: impl RangeBounds<usize>) -> (*const c_void, usize) {
    let start = match range.start_bound() {
        Bound::Included(at) => *at,
        Bound::Excluded(at) => *at + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(at) => *at + 1,
        Bound::Excluded(at) => *at,
        Bound::Unbounded => buffer.len(),
    };
    assert!(start <= end && end <= buffer.len(), "the range is not in the buffer");
    // In the buffer, or its end.
    ((buffer.as_ptr() as *const u8).wrapping_add(start) as *const c_void, end - start)
}

impl Domain {
    /// Gets a region that covers this range of the buffer, from the cache if one is there. With
    /// remote rights it is deregistered before the drop of its last holder returns
    /// (`HMREG_POLICY_LAST_PUT`), so that no peer reaches the memory when it has become another
    /// object's. Panics if the range is not in the buffer.
    pub fn get(
        &self,
        buffer: &Arc<Buffer>,
        range: impl RangeBounds<usize>,
        access: Access,
    ) -> Result<Region> {
        let (addr, len) = part(buffer, range);
        let policy = match access.is_remote() {
            true => sys::HMREG_POLICY_LAST_PUT,
            false => sys::HMREG_POLICY_KEEP,
        };
        // SAFETY: the region keeps the buffer, to whose bytes there are no references; and peers
        // have its key no longer than the region.
        unsafe { self.get_attr(addr, len, access, policy, Some(buffer.clone())) }
    }

    /// Registers this range of the buffer, without the cache. Panics if the range is not in the
    /// buffer.
    pub fn register(
        &self,
        buffer: &Arc<Buffer>,
        range: impl RangeBounds<usize>,
        access: Access,
    ) -> Result<Region> {
        let (addr, len) = part(buffer, range);
        // SAFETY: as above.
        unsafe { self.register_memory(addr, len, access, 0, Some(buffer.clone())) }
    }

    /// Gets a region of any memory: a device's, or the program's own, with the domain's policy.
    ///
    /// # Safety
    /// The memory stays allocated until the region is dropped. While it is registered, the fabric
    /// and, with remote rights, peers read and write it as `access` says, whatever references there
    /// are. A cached region with remote rights stays registered after that
    /// (`HMREG_POLICY_KEEP`), until its memory ends or [`crate::Library::invalidate`].
    pub unsafe fn get_raw(
        &self,
        addr: *const c_void,
        len: usize,
        access: Access,
    ) -> Result<Region> {
        // SAFETY: as the caller promises.
        unsafe { self.get_attr(addr, len, access, sys::HMREG_POLICY_DEFAULT, None) }
    }

    /// Registers any memory, without the cache. `flags`: as of `hmreg_mr_reg(3)`.
    ///
    /// # Safety
    /// As of [`Domain::get_raw`], until the region is dropped.
    pub unsafe fn register_raw(
        &self,
        addr: *const c_void,
        len: usize,
        access: Access,
        flags: u64,
    ) -> Result<Region> {
        // SAFETY: as the caller promises.
        unsafe { self.register_memory(addr, len, access, flags, None) }
    }

    unsafe fn get_attr(
        &self,
        addr: *const c_void,
        len: usize,
        access: Access,
        policy: sys::hmreg_policy,
        memory: Option<Arc<Buffer>>,
    ) -> Result<Region> {
        let iov = sys::iovec { iov_base: addr as *mut c_void, iov_len: len };
        let attr = sized(|it: &mut sys::hmreg_mr_attr, size| {
            it.size = size;
            it.iov = &iov;
            it.iov_count = 1;
            it.access = access.0;
            it.requested_key = sys::HMREG_KEY_ANY;
            it.policy = policy;
        });
        let mut out = null_mut();
        // SAFETY: the domain is open; attr and iov are read during the call.
        check(unsafe { sys::hmreg_mr_get_attr(self.as_raw(), &attr, 0, &mut out) })?;
        Ok(self.region(out, true, addr, len, memory))
    }

    unsafe fn register_memory(
        &self,
        addr: *const c_void,
        len: usize,
        access: Access,
        flags: u64,
        memory: Option<Arc<Buffer>>,
    ) -> Result<Region> {
        let (any, mut out) = (sys::HMREG_KEY_ANY, null_mut());
        // SAFETY: the domain is open.
        check(unsafe {
            let domain = self.as_raw();
            sys::hmreg_mr_reg(domain, addr, len, access.0, 0, any, flags, &mut out, null_mut())
        })?;
        Ok(self.region(out, false, addr, len, memory))
    }

    fn region(
        &self,
        raw: *mut sys::hmreg_mr,
        cached: bool,
        addr: *const c_void,
        len: usize,
        memory: Option<Arc<Buffer>>,
    ) -> Region {
        let raw = NonNull::new(raw).expect("the region is NULL");
        Region { raw, cached, addr, len, domain: self.clone(), memory }
    }
}

impl Region {
    /// Where the range that was asked for begins.
    pub fn addr(&self) -> *const c_void {
        self.addr
    }

    /// Bytes of the range that was asked for.
    #[allow(clippy::len_without_is_empty)] // no region is empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// The domain that it is registered with.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The descriptor for the fabric's local operations; NULL: none is needed, or each piece has
    /// its own.
    pub fn desc(&self) -> *mut c_void {
        // SAFETY: the region is open.
        unsafe { sys::hmreg_mr_desc(self.as_raw()) }
    }

    /// The key for a peer, if the region has one that is not raw, and one only.
    pub fn key(&self) -> Option<u64> {
        // SAFETY: the region is open.
        let key = unsafe { sys::hmreg_mr_key(self.as_raw()) };
        (key != sys::HMREG_KEY_NOTAVAIL).then_some(key)
    }

    /// The bytes to send to a peer, which opens them by [`crate::Remote::open`]. Its offsets count
    /// from the range that was asked for; a region of the cache may be larger.
    pub fn token(&self) -> Result<Vec<u8>> {
        let mut token = vec![0; 256];
        loop {
            let mut size = token.len();
            // SAFETY: the region is open, and token has so many bytes.
            let code = unsafe {
                let to = token.as_mut_ptr() as *mut c_void;
                sys::hmreg_mr_pack_range(self.as_raw(), self.addr, self.len, to, &mut size)
            };
            let fits = size <= token.len();
            token.resize(size, 0);
            if fits || code != -(sys::HMREG_ETOOSMALL as c_int) {
                return check(code).map(|()| token);
            }
        }
    }

    /// What the region is: its path, bounds and device.
    pub fn query(&self) -> Result<RegionInfo> {
        let mut info = sized(|it: &mut RegionInfo, size| it.size = size);
        // SAFETY: the region is open, and info has its size.
        check(unsafe { sys::hmreg_mr_query(self.as_raw(), &mut info) })?;
        Ok(info)
    }

    /// Why the region has its path.
    pub fn explain(&self) -> Result<Explanation> {
        explain(self.as_raw())
    }

    /// For calls of `hmreg_sys`. It stays valid while the region does; do not put or close it.
    pub fn as_raw(&self) -> *mut sys::hmreg_mr {
        self.raw.as_ptr()
    }
}

impl Explanation {
    /// Of this thread's last registration that failed because every path was refused, or it found
    /// no room.
    pub fn of_last_failure() -> Result<Explanation> {
        explain(null())
    }
}

fn explain(mr: *const sys::hmreg_mr) -> Result<Explanation> {
    let mut out = sized(|it: &mut sys::hmreg_explanation, size| it.size = size);
    // SAFETY: the region is open or NULL, and out has its size.
    check(unsafe { sys::hmreg_mr_explain(mr, &mut out) })?;
    let reasons = out.reasons.iter().take(out.refused as usize).map(|reason| Reason {
        path: reason.path,
        code: reason.code,
        vendor_code: reason.vendor_code,
        slug: text(&reason.slug),
        text: text(&reason.text),
    });
    Ok(Explanation {
        path: out.path,
        reasons: reasons.collect(),
        uncached_why: text(&out.uncached_why),
    })
}
