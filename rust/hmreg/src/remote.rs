// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
use crate::error::{check, Result};
use crate::{sized, sys, Domain};
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};

/// What a later token of the same buffer tells of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteState {
    /// It is of the same registration.
    Current,
    /// The owner has registered the buffer anew: [`Remote::renew`].
    Renewed,
    /// The owner's process has ended: do not use the remote's keys.
    Dead,
}

/// A peer's region, opened from its token.
#[derive(Debug)]
pub struct Remote {
    raw: NonNull<sys::hmreg_remote>,
    domain: Domain,
}

// SAFETY: any thread may call any function of the library; renew(), beside which no other thread
// may use the remote, takes it by &mut.
unsafe impl Send for Remote {}
unsafe impl Sync for Remote {}

impl Drop for Remote {
    fn drop(&mut self) {
        // SAFETY: opened by the library, and this is the one close of it.
        unsafe { sys::hmreg_remote_close(self.raw.as_ptr()) };
    }
}

impl Remote {
    /// Opens a peer's region on a domain of the same kind as the peer's. The token is checked, and
    /// may come from anywhere.
    pub fn open(domain: &Domain, token: &[u8]) -> Result<Remote> {
        let mut out = null_mut();
        // SAFETY: the domain is open, and the token is copied.
        check(unsafe {
            let bytes = token.as_ptr() as *const c_void;
            sys::hmreg_remote_open(domain.as_raw(), bytes, token.len(), &mut out)
        })?;
        let raw = NonNull::new(out).expect("hmreg_remote_open() wrote NULL");
        Ok(Remote { raw, domain: domain.clone() })
    }

    /// Bytes of the peer's region.
    #[allow(clippy::len_without_is_empty)] // no region is empty
    pub fn len(&self) -> Result<u64> {
        let mut info = sized(|it: &mut sys::hmreg_remote_info, size| it.size = size);
        // SAFETY: the remote is open, and info has its size.
        check(unsafe { sys::hmreg_remote_query(self.as_raw(), &mut info) })?;
        Ok(info.len)
    }

    /// The address and the key for an RMA operation on `len` bytes at `offset` of the region.
    pub fn addr(&self, offset: u64, len: usize) -> Result<(u64, u64)> {
        let (mut addr, mut key) = (0, 0);
        // SAFETY: the remote is open.
        check(unsafe { sys::hmreg_remote_addr(self.as_raw(), offset, len, &mut addr, &mut key) })?;
        Ok((addr, key))
    }

    /// Compares the remote with a token that its owner sent later.
    pub fn check(&self, token: &[u8]) -> Result<RemoteState> {
        let mut state = sys::HMREG_REMOTE_CURRENT;
        // SAFETY: the remote is open.
        check(unsafe {
            let bytes = token.as_ptr() as *const c_void;
            sys::hmreg_remote_check(self.as_raw(), bytes, token.len(), &mut state)
        })?;
        Ok(match state {
            sys::HMREG_REMOTE_CURRENT => RemoteState::Current,
            sys::HMREG_REMOTE_RENEWED => RemoteState::Renewed,
            _ => RemoteState::Dead,
        })
    }

    /// Makes the remote what the newer token says.
    pub fn renew(&mut self, token: &[u8]) -> Result<()> {
        // SAFETY: the remote is open, and &mut says that no other thread uses it.
        check(unsafe {
            let bytes = token.as_ptr() as *const c_void;
            sys::hmreg_remote_renew(self.as_raw(), bytes, token.len())
        })
    }

    /// The domain that it was opened on.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// For calls of `hmreg_sys`. It stays valid while the remote does.
    pub fn as_raw(&self) -> *mut sys::hmreg_remote {
        self.raw.as_ptr()
    }
}

#[cfg(feature = "loopback")]
impl Remote {
    /// Writes what the region `from` was asked for to `offset` of the peer's region, both of
    /// loopback domains. `from` has the right [`crate::Access::WRITE`].
    pub fn loopback_write(&self, offset: u64, from: &crate::Region) -> Result<()> {
        let (addr, key) = self.addr(offset, from.len())?;
        // SAFETY: the remote is open, and the region keeps its memory.
        check(unsafe {
            let (raw, local, desc) = (self.as_raw(), from.addr(), from.desc());
            sys::hmreg_loopback_write(raw, local, from.len(), desc, addr, key)
        })
    }

    /// Reads from `offset` of the peer's region all that the region `to` was asked for, which has
    /// the right [`crate::Access::READ`].
    pub fn loopback_read(&self, offset: u64, to: &crate::Region) -> Result<()> {
        let (addr, key) = self.addr(offset, to.len())?;
        // SAFETY: as above. There are no references to a buffer's bytes, and who registered other
        // memory has promised it.
        check(unsafe {
            let (raw, local, desc) = (self.as_raw(), to.addr() as *mut c_void, to.desc());
            sys::hmreg_loopback_read(raw, local, to.len(), desc, addr, key)
        })
    }
}
