// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
//! hmreg: register host and device memory with RDMA fabrics, and cache the registrations.
//!
//! A [`Library`] opens a [`Domain`] on a fabric. The domain registers a [`Buffer`], or memory that
//! the caller answers for, as a [`Region`]. A peer opens the region's token as a [`Remote`].
//! `examples/loopback.rs` does all of it.
//!
//! Each owner closes its object when it is dropped, and keeps what the object depends on: a region
//! its domain and its buffer, a domain its library. So no order of drops is wrong. Any thread may
//! use and drop any of them, as the C interface says: all are `Send` and `Sync`.
//!
//! What is not here is in `hmreg_sys`, and each owner has an `as_raw()` for it.

#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod buffer;
mod domain;
mod error;
mod library;
mod region;
mod remote;

pub use buffer::Buffer;
pub use domain::{Domain, DomainConfig};
pub use error::{Error, Result};
pub use hmreg_sys as sys;
pub use library::{Library, LibraryConfig};
pub use region::{Access, Explanation, Reason, Region};
pub use remote::{Remote, RemoteState};

/// What is at an address: `struct hmreg_mem_info`.
pub type MemInfo = sys::hmreg_mem_info;
/// What a domain requires: `struct hmreg_domain_info`.
pub type DomainInfo = sys::hmreg_domain_info;
/// What a domain's caches did: `struct hmreg_stats`.
pub type Stats = sys::hmreg_stats;
/// What a region is: `struct hmreg_mr_info`.
pub type RegionInfo = sys::hmreg_mr_info;

/// The version of the library at run time, such as "0.3.0".
pub fn version() -> &'static str {
    // SAFETY: the library returns a string of its own, of ASCII, which never changes.
    unsafe { std::ffi::CStr::from_ptr(sys::hmreg_version()) }.to_str().unwrap_or("?")
}

/// A C struct that begins with its size, otherwise zero. `T` is one of C's extensible structs.
fn sized<T: Copy>(set: impl FnOnce(&mut T, usize)) -> T {
    // SAFETY: the extensible structs of the C interface are numbers, pointers and arrays of them,
    // for all of which zero is a value.
    let mut it: T = unsafe { std::mem::zeroed() };
    set(&mut it, std::mem::size_of::<T>());
    it
}

/// The text in a C array of characters, which ends with a NUL.
fn text(chars: &[std::os::raw::c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
