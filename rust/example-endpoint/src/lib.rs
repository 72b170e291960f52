// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
//! The libfabric code that the examples in Rust share: one reliable endpoint that can write a
//! peer's memory; here the peer is the endpoint itself.
#![deny(unsafe_op_in_unsafe_fn)]

use hmreg::{sys, Domain, DomainConfig, Error, Library, Region};
use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// `struct endpoint` of the examples in C.
#[repr(C)]
struct Raw {
    _unused: [u8; 0],
}

extern "C" {
    fn example_endpoint_open(provider: *const c_char, code: *mut c_int) -> *mut Raw;
    fn example_endpoint_domain(endpoint: *const Raw) -> *mut sys::fid_domain;
    fn example_endpoint_info(endpoint: *const Raw) -> *const sys::fi_info;
    fn example_endpoint_close(endpoint: *mut Raw);
    fn endpoint_write(
        endpoint: *mut Raw,
        local: *const c_void,
        len: usize,
        desc: *mut c_void,
        addr: u64,
        key: u64,
    ) -> c_int;
}

struct Opened {
    raw: NonNull<Raw>,
    write: Mutex<()>,
}

// SAFETY: the endpoint is opened for FI_THREAD_SAFE, and writes, which wait for their own
// completion, follow each other.
unsafe impl Send for Opened {}
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: opened by us; all domains on it are closed, as each keeps it.
        unsafe { example_endpoint_close(self.raw.as_ptr()) };
    }
}

/// An endpoint that is connected with itself.
pub struct Endpoint(Arc<Opened>);

impl Endpoint {
    /// Opens an endpoint of a provider of libfabric, such as "tcp". An error is libfabric's number.
    pub fn open(provider: &str) -> Result<Endpoint, i32> {
        let provider = CString::new(provider).map_err(|_| -22)?;
        let mut code = -12; // ENOMEM

        // SAFETY: the string is read during the call.
        let raw = unsafe { example_endpoint_open(provider.as_ptr(), &mut code) };
        let raw = NonNull::new(raw).ok_or(code)?;
        Ok(Endpoint(Arc::new(Opened { raw, write: Mutex::new(()) })))
    }

    /// Opens a domain of hmreg on the endpoint's.
    pub fn domain(&self, library: &Library, config: &DomainConfig) -> Result<Domain, Error> {
        let raw = self.0.raw.as_ptr();
        // SAFETY: the domain keeps the endpoint, which has both until it is dropped, and any thread
        // may use it.
        unsafe {
            let (domain, info) = (example_endpoint_domain(raw), example_endpoint_info(raw));
            Domain::open_ofi(library, domain, info, config, self.0.clone())
        }
    }

    /// Writes what the region `from` was asked for to an address of the peer. Returns after
    /// completion; an error is libfabric's number.
    pub fn write(&self, from: &Region, addr: u64, key: u64) -> Result<(), i32> {
        let _one = self.0.write.lock().expect("a write panicked");
        // SAFETY: the region keeps its memory; the peer checks the key.
        let code = unsafe {
            let raw = self.0.raw.as_ptr();
            endpoint_write(raw, from.addr(), from.len(), from.desc(), addr, key)
        };
        match code {
            0 => Ok(()),
            _ => Err(code),
        }
    }
}
