// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Example 1 of ../../../examples in Rust: host memory over libfabric. One buffer is written into
// another, as a peer would do it. A file in C opens libfabric's domain.
//
//     cargo run -p example-endpoint --example host [PROVIDER]
#![forbid(unsafe_code)]

use example_endpoint::Endpoint;
use hmreg::{Access, Buffer, DomainConfig, Library, Remote};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let provider = std::env::args().nth(1).unwrap_or_else(|| "tcp".to_owned());
    let failed = |code| format!("{}: libfabric's error {}", provider, code);
    let endpoint = Endpoint::open(&provider).map_err(failed)?;
    let library = Library::open()?;

    // A domain, in which memory is registered. It keeps the endpoint.
    let domain = endpoint.domain(&library, &DomainConfig::default())?;

    // The target: peers may write it. They need its token, which is sent to them as bytes.
    let target = Buffer::new(27);
    let region = domain.get(&target, .., Access::REMOTE_WRITE)?;
    let token = region.token()?;

    // The peer's side: the token becomes an address and a key for RMA calls.
    let remote = Remote::open(&domain, &token)?;
    let (addr, key) = remote.addr(0, target.len())?;

    // The source: some fabrics want it registered too, and its descriptor in each call.
    let source = domain.get(&Buffer::copy_of(b"written through the fabric."), .., Access::WRITE)?;
    endpoint.write(&source, addr, key).map_err(failed)?;
    println!("{}: {}", provider, String::from_utf8_lossy(&target.to_vec()));
    Ok(())
}
