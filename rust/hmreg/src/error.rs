// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
use crate::{sys, text};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::{fmt, io};

/// Why a call failed: what `hmreg_last_error()` says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The negative error number of the call, one of `errno.h` or `-HMREG_E*`.
    pub code: i32,
    /// What failed: "hmreg", "cuda", "rocr", "ze", "ofi", "verbs", "os".
    pub source: String,
    /// The source's own code; 0: it has none.
    pub vendor_code: i64,
    /// The source's own text; "": it has none.
    pub vendor_text: String,
    /// A sentence that names the argument or, at its end, the remedy.
    pub text: String,
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Of a call that has just returned `code` to this thread.
    fn last(code: c_int) -> Error {
        // SAFETY: never NULL, and valid until this thread's next failure, which is after this.
        let last = unsafe { &*sys::hmreg_last_error() };
        if last.code != code {
            // SAFETY: the text is the library's own, and never NULL.
            let text = unsafe { CStr::from_ptr(sys::hmreg_strerror(code)) };
            return Error {
                code,
                source: "hmreg".to_owned(),
                vendor_code: 0,
                vendor_text: String::new(),
                text: text.to_string_lossy().into_owned(),
            };
        }
        Error {
            code,
            // SAFETY: of a failure it is a string of the library's own.
            source: unsafe { CStr::from_ptr(last.source) }.to_string_lossy().into_owned(),
            vendor_code: last.vendor_code,
            vendor_text: text(&last.vendor_text),
            text: text(&last.text),
        }
    }

    /// The kind of `io::Error` that the code is; `Other` or alike for `HMREG_E*`.
    pub fn kind(&self) -> io::ErrorKind {
        io::Error::from_raw_os_error(-self.code).kind()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// Of a call's return value.
pub(crate) fn check(code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Error::last(code)),
    }
}
