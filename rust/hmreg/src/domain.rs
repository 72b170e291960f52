// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
use crate::error::{check, Result};
use crate::{sized, sys, DomainInfo, Library, Stats};
use std::any::Any;
use std::fmt;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// Choices for opening a domain; zeros are the defaults.
#[derive(Clone, Debug, Default)]
pub struct DomainConfig {
    /// `HMREG_DOMAIN_*`, and flags of the fabric's own.
    pub flags: u32,
    /// Limit of cached regions.
    pub max_regions: u64,
    /// Limit of cached bytes.
    pub max_bytes: u64,
}

impl DomainConfig {
    fn to_c(&self) -> sys::hmreg_domain_config {
        sized(|it: &mut sys::hmreg_domain_config, size| {
            it.size = size;
            it.flags = self.flags;
            it.max_regions = self.max_regions;
            it.max_bytes = self.max_bytes;
        })
    }
}

struct Opened {
    raw: NonNull<sys::hmreg_domain>,
    library: Library,
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: any thread may call any function of the library.
unsafe impl Send for Opened {}
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: opened by the library, and this is the one close of it. All regions and remotes are
        // closed: each keeps its domain.
        if unsafe { sys::hmreg_domain_close(self.raw.as_ptr()) } != 0 {
            // The fabric does not deregister a region, or this is a forked child: the domain stays
            // open, and so does all that it uses.
            std::mem::forget((self.library.clone(), self.owner.clone()));
        }
    }
}

/// A fabric's domain, on which memory is registered. A clone is the same domain, which is closed
/// when the last clone, region and remote are dropped.
#[derive(Clone)]
pub struct Domain(Arc<Opened>);

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Domain").field(&self.as_raw()).finish()
    }
}

impl Domain {
    /// Owns a domain that a call of `hmreg_sys` opened, and keeps `owner` until it is closed.
    ///
    /// # Safety
    /// `raw` is an open domain of `library`, which no other code closes. What it was opened on, such
    /// as a `struct fid_domain`, stays valid until `owner` is dropped, and its threading permits
    /// calls from any thread, as `hmreg_domain_open_ofi(3)` says.
    pub unsafe fn from_raw(
        library: &Library,
        raw: NonNull<sys::hmreg_domain>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Domain {
        Domain(Arc::new(Opened { raw, library: library.clone(), owner }))
    }

    /// Opens a domain that needs no fabric: its peers are loopback domains of this process.
    #[cfg(feature = "loopback")]
    pub fn open_loopback(library: &Library, config: &DomainConfig) -> Result<Domain> {
        let mut out = null_mut();
        let config = config.to_c();
        // SAFETY: the library is open; config is read during the call.
        let code = unsafe {
            sys::hmreg_domain_open_loopback(library.as_raw(), std::ptr::null(), &config, &mut out)
        };
        // SAFETY: the call above opened it, on nothing else.
        unsafe { Domain::opened(library, code, out, Arc::new(())) }
    }

    /// Opens a domain on libfabric's.
    ///
    /// # Safety
    /// `domain` stays open until `owner` is dropped, and `info` is the one that it was opened with.
    /// Its threading is as [`Domain::from_raw`] asks.
    #[cfg(feature = "ofi")]
    pub unsafe fn open_ofi(
        library: &Library,
        domain: *mut sys::fid_domain,
        info: *const sys::fi_info,
        config: &DomainConfig,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Domain> {
        let mut out = null_mut();
        let config = config.to_c();
        // SAFETY: as the caller promises.
        let code = unsafe {
            sys::hmreg_domain_open_ofi(library.as_raw(), domain, info, &config, &mut out)
        };
        // SAFETY: the call above opened it.
        unsafe { Domain::opened(library, code, out, owner) }
    }

    /// Opens a domain on a protection domain of libibverbs.
    ///
    /// # Safety
    /// `pd` stays allocated until `owner` is dropped.
    #[cfg(feature = "verbs")]
    pub unsafe fn open_verbs(
        library: &Library,
        pd: *mut sys::ibv_pd,
        config: &DomainConfig,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Domain> {
        let mut out = null_mut();
        let config = config.to_c();
        // SAFETY: as the caller promises.
        let code = unsafe { sys::hmreg_domain_open_verbs(library.as_raw(), pd, &config, &mut out) };
        // SAFETY: the call above opened it.
        unsafe { Domain::opened(library, code, out, owner) }
    }

    /// # Safety
    /// As of [`Domain::from_raw`], if `code` is 0.
    #[allow(dead_code)] // where no feature opens one
    unsafe fn opened(
        library: &Library,
        code: std::os::raw::c_int,
        raw: *mut sys::hmreg_domain,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Domain> {
        check(code)?;
        let raw = NonNull::new(raw).expect("the domain is NULL");
        // SAFETY: as the caller promises.
        Ok(unsafe { Domain::from_raw(library, raw, owner) })
    }

    /// What the domain requires, and its limits.
    pub fn query(&self) -> Result<DomainInfo> {
        let mut info = sized(|it: &mut DomainInfo, size| it.size = size);
        // SAFETY: the domain is open, and info has its size.
        check(unsafe { sys::hmreg_domain_query(self.as_raw(), &mut info) })?;
        Ok(info)
    }

    /// What the domain's caches did.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = sized(|it: &mut Stats, size| it.size = size);
        // SAFETY: the domain is open, and stats has its size.
        check(unsafe { sys::hmreg_domain_stats(self.as_raw(), &mut stats) })?;
        Ok(stats)
    }

    /// Deregisters every cached region that is not in use.
    pub fn flush(&self) -> Result<()> {
        // SAFETY: the domain is open.
        check(unsafe { sys::hmreg_domain_flush(self.as_raw()) })
    }

    /// Deregisters, on this thread, regions that ended; for fabrics that only the application's
    /// threads may call.
    pub fn progress(&self) -> Result<()> {
        // SAFETY: the domain is open.
        check(unsafe { sys::hmreg_domain_progress(self.as_raw()) })
    }

    /// The library that it is of.
    pub fn library(&self) -> &Library {
        &self.0.library
    }

    /// For calls of `hmreg_sys`. It stays valid while this domain or a clone does.
    pub fn as_raw(&self) -> *mut sys::hmreg_domain {
        self.0.raw.as_ptr()
    }
}
