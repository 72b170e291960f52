// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
use crate::error::{check, Result};
use crate::{sized, sys, MemInfo};
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// Choices for [`Library::open_with`]; zeros are the defaults.
#[derive(Clone, Debug, Default)]
pub struct LibraryConfig {
    /// `HMREG_IFACE_BIT()`s of the runtimes to start, or `HMREG_IFACES_STARTED`.
    pub ifaces: u32,
    /// The monitor of host memory, `HMREG_MONITOR_*`.
    pub monitor: sys::hmreg_monitor,
    /// Cached bytes that a fork leaves registered.
    pub fork_max_bytes: u64,
}

#[derive(Debug)]
struct Opened(NonNull<sys::hmreg>);

// SAFETY: any thread may call any function of the library.
unsafe impl Send for Opened {}
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: opened by hmreg_open(), and this is the one close of it. It fails in a forked child, or
        // after a domain that could not be closed: then the library stays open.
        unsafe { sys::hmreg_close(self.0.as_ptr()) };
    }
}

/// The opened library: the vendors' runtimes and the memory monitor. A clone is the same library,
/// which is closed when the last clone and the last domain are dropped.
#[derive(Clone, Debug)]
pub struct Library(Arc<Opened>);

impl Library {
    /// Opens the library with the environment's choices.
    pub fn open() -> Result<Library> {
        Library::open_with(&LibraryConfig::default())
    }

    /// Opens the library.
    pub fn open_with(config: &LibraryConfig) -> Result<Library> {
        let mut out = null_mut();
        let config = sized(|it: &mut sys::hmreg_config, size| {
            it.size = size;
            it.ifaces = config.ifaces;
            it.monitor = config.monitor;
            it.fork_max_bytes = config.fork_max_bytes;
        });
        // SAFETY: config is read during the call; out is written on success.
        check(unsafe { sys::hmreg_open(&config, &mut out) })?;
        Ok(Library(Arc::new(Opened(NonNull::new(out).expect("hmreg_open() wrote NULL")))))
    }

    /// What the `len` bytes at `addr` are. No memory is read, so any address may be asked for.
    #[allow(clippy::not_unsafe_ptr_arg_deref)]
    pub fn query(&self, addr: *const c_void, len: usize) -> Result<MemInfo> {
        let mut info = sized(|it: &mut MemInfo, size| it.size = size);
        // SAFETY: the library is open, and info has its size.
        check(unsafe { sys::hmreg_query(self.as_raw(), addr, len, &mut info) })?;
        Ok(info)
    }

    /// Ends all cached regions that overlap the `len` bytes at `addr`, before the caller frees
    /// memory that no monitor watches.
    #[allow(clippy::not_unsafe_ptr_arg_deref)]
    pub fn invalidate(&self, addr: *const c_void, len: usize) -> Result<()> {
        // SAFETY: the library is open, and reads no memory at addr.
        check(unsafe { sys::hmreg_invalidate(self.as_raw(), addr, len) })
    }

    /// For calls of `hmreg_sys`. It stays valid while this library or a clone does.
    pub fn as_raw(&self) -> *mut sys::hmreg {
        self.0 .0.as_ptr()
    }
}
