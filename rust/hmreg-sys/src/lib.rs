// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
//! The C interface of [hmreg](../../README.md), declaration by declaration. Its headers and manual
//! pages say what each call does. The crate `hmreg` has owners and errors for most of it.
//!
//! Features: `loopback`, `ofi`, `verbs` and `affinity` link the library of that name; without one
//! its functions are declared, and a program that calls them does not link.

#![no_std]
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

extern crate std;

include!("bindings.rs");
