// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
use std::os::raw::c_void;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

/// Host memory to register. A region keeps its buffer, so the memory outlives the registration.
///
/// Peers may change the bytes at any time, so there are no references to them: [`Buffer::read`] and
/// [`Buffer::write`] copy them, one at a time. A read beside a transfer or another write returns of
/// each byte what it was before or after. Where copies are too slow, use [`Buffer::as_ptr`].
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[AtomicU8]>,
}

impl Buffer {
    /// A buffer of `len` zeros.
    pub fn new(len: usize) -> Arc<Buffer> {
        let bytes = std::iter::repeat_with(|| AtomicU8::new(0)).take(len).collect();
        Arc::new(Buffer { bytes })
    }

    /// A buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Arc<Buffer> {
        Arc::new(Buffer { bytes: bytes.iter().map(|byte| AtomicU8::new(*byte)).collect() })
    }

    /// Bytes of the buffer.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no bytes; such a buffer cannot be registered.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where the memory begins.
    pub fn as_ptr(&self) -> *mut c_void {
        self.bytes.as_ptr() as *mut c_void
    }

    /// Copies bytes from `offset` on to `to`. Panics if they are not all in the buffer.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let from = &self.bytes[offset..][..to.len()];
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.load(Ordering::Relaxed);
        }
    }

    /// Copies `from` to the bytes from `offset` on. Panics if they are not all in the buffer.
    pub fn write(&self, offset: usize, from: &[u8]) {
        for (to, from) in self.bytes[offset..][..from.len()].iter().zip(from) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect()
    }
}
