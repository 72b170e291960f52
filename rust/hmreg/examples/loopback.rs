// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A peer writes a buffer and reads it back, by a token. Both are loopback domains of this program.
//
//     cargo run --example loopback
#![forbid(unsafe_code)]

use hmreg::{Access, Buffer, Domain, DomainConfig, Library, Remote, Result};

fn main() -> Result<()> {
    let library = Library::open()?;
    let owner = Domain::open_loopback(&library, &DomainConfig::default())?;
    let peer = Domain::open_loopback(&library, &DomainConfig::default())?;

    // The owner lets peers write and read its buffer, and sends them the token.
    let target = Buffer::new(64);
    let region = owner.get(&target, .., Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    let token = region.token()?;

    // The peer opens the token, and writes from a buffer of its own.
    let remote = Remote::open(&peer, &token)?;
    let message = Buffer::copy_of(b"written by a peer");
    remote.loopback_write(0, &peer.get(&message, .., Access::WRITE)?)?;

    let copy = Buffer::new(message.len());
    remote.loopback_read(0, &peer.get(&copy, .., Access::READ)?)?;
    assert_eq!(copy.to_vec(), message.to_vec());
    println!("{}", String::from_utf8_lossy(&copy.to_vec()));

    // Refused: the token ends with the region.
    drop(region);
    let refused = remote.loopback_write(0, &peer.get(&message, .., Access::WRITE)?);
    println!("then: {}", refused.expect_err("the region is closed"));
    Ok(())
}
