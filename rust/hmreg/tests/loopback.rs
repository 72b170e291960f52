// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#![cfg(feature = "loopback")]

use hmreg::{sys, Access, Buffer, Domain, DomainConfig, Library, Region, Remote, RemoteState};
use std::sync::Arc;

const EKEYREJECTED: i32 = 129; // Linux's, on x86-64 and arm64

fn domains() -> (Domain, Domain) {
    let library = Library::open().unwrap();
    let open = || Domain::open_loopback(&library, &DomainConfig::default()).unwrap();
    (open(), open())
}

fn write(peer: &Domain, remote: &Remote, text: &[u8]) -> hmreg::Result<()> {
    let source = peer.get(&Buffer::copy_of(text), .., Access::WRITE)?;
    remote.loopback_write(0, &source)
}

#[test]
fn owners_may_be_dropped_in_any_order() {
    let (owner, peer) = domains();
    let buffer = Buffer::new(100);
    let region = owner.get(&buffer, .., Access::REMOTE_WRITE).unwrap();
    let remote = Remote::open(&peer, &region.token().unwrap()).unwrap();

    drop((owner, buffer));
    write(&peer, &remote, b"kept").unwrap();
    drop(peer);
    drop(region);
    assert_eq!(remote.len().unwrap(), 100);
}

#[test]
fn a_buffer_lives_as_long_as_its_region() {
    let (owner, _peer) = domains();
    let buffer = Buffer::new(4096);
    let cached = owner.get(&buffer, .., Access::SEND).unwrap();
    let explicit = owner.register(&buffer, .., Access::REMOTE_READ).unwrap();
    assert_eq!(Arc::strong_count(&buffer), 3);
    drop((cached, explicit));
    assert_eq!(Arc::strong_count(&buffer), 1);
}

#[test]
fn a_region_with_remote_rights_ends_with_its_last_holder() {
    let (owner, peer) = domains();
    let buffer = Buffer::new(4096);
    let first = owner.get(&buffer, .., Access::REMOTE_WRITE).unwrap();
    let second = owner.get(&buffer, .., Access::REMOTE_WRITE).unwrap();
    let remote = Remote::open(&peer, &first.token().unwrap()).unwrap();

    drop(first);
    write(&peer, &remote, b"held").unwrap();
    drop(second);
    let refused = write(&peer, &remote, b"late").unwrap_err();
    assert_eq!(refused.code, -EKEYREJECTED);
    assert_eq!(&buffer.to_vec()[..5], b"held\0");
}

#[test]
fn a_token_is_of_the_range_that_was_asked_for() {
    let (owner, peer) = domains();
    let buffer = Buffer::new(4096);
    let base = buffer.as_ptr() as *const u8;
    // SAFETY: the buffer outlives the domain. A get with policy KEEP may return a larger region.
    let (_all, part) = unsafe {
        let get = |from: usize, len| {
            owner.get_raw(base.wrapping_add(from).cast(), len, Access::REMOTE_WRITE).unwrap()
        };
        (get(0, 4096), get(100, 100))
    };
    assert_eq!(part.query().unwrap().len, 4096);
    let remote = Remote::open(&peer, &part.token().unwrap()).unwrap();

    assert_eq!(remote.len().unwrap(), 100);
    write(&peer, &remote, b"there").unwrap();
    assert_eq!(&buffer.to_vec()[99..106], b"\0there\0");
    assert!(remote.addr(100, 1).is_err());
}

#[test]
fn a_get_without_remote_rights_is_a_hit_later() {
    let (owner, _peer) = domains();
    let buffer = Buffer::new(4096);
    // While another test's thread searches loaded code no get keeps its region.
    let kept = |region: &Region| region.explain().unwrap().uncached_why.is_empty();
    let first = owner.get(&buffer, .., Access::SEND).unwrap();
    let first_kept = kept(&first);
    drop(first);
    let again = owner.get(&buffer, .., Access::SEND).unwrap();
    let stats = owner.stats().unwrap();
    if first_kept && kept(&again) {
        assert_eq!((stats.hits, stats.misses), (1, 1));
    }
    drop(again);
    owner.flush().unwrap();
    assert_eq!(owner.stats().unwrap().regions, 0);
}

#[test]
fn an_error_says_what_the_library_says() {
    let (owner, peer) = domains();
    let error = owner.get(&Buffer::new(10), 3..3, Access::SEND).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(error.source, "hmreg");
    assert!(error.to_string().contains("len"), "{}", error);
    assert!(Remote::open(&peer, b"no token").is_err());
}

#[test]
#[should_panic(expected = "not in the buffer")]
fn a_range_outside_the_buffer_panics() {
    let (owner, _peer) = domains();
    let _ = owner.get(&Buffer::new(10), 5..11, Access::SEND);
}

#[test]
fn a_remote_is_renewed_by_a_later_token() {
    let (owner, peer) = domains();
    let buffer = Buffer::new(64);
    let first = owner.register(&buffer, .., Access::REMOTE_WRITE).unwrap();
    let mut remote = Remote::open(&peer, &first.token().unwrap()).unwrap();
    assert_eq!(remote.check(&first.token().unwrap()), Ok(RemoteState::Current));
    drop(first);
    let second = owner.register(&buffer, .., Access::REMOTE_WRITE).unwrap();
    let token = second.token().unwrap();
    assert_eq!(remote.check(&token), Ok(RemoteState::Renewed));
    remote.renew(&token).unwrap();
    write(&peer, &remote, b"new").unwrap();
}

#[test]
fn a_token_of_many_bytes_is_whole() {
    let library = Library::open().unwrap();
    // SAFETY: of numbers and pointers.
    let (mut short, mut parts): (sys::hmreg_loopback_config, sys::hmreg_domain_config) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    short.size = std::mem::size_of_val(&short);
    short.max_len = 4096;
    parts.size = std::mem::size_of_val(&parts);
    parts.flags = sys::HMREG_DOMAIN_PARTS;
    let mut raw = std::ptr::null_mut();
    // SAFETY: the library is open, and the domain's only owner is made of it.
    let domain = unsafe {
        assert_eq!(sys::hmreg_domain_open_loopback(library.as_raw(), &short, &parts, &mut raw), 0);
        Domain::from_raw(&library, std::ptr::NonNull::new(raw).unwrap(), Arc::new(()))
    };
    let region = domain.get(&Buffer::new(40 * 4096), .., Access::REMOTE_READ).unwrap();
    let token = region.token().unwrap();
    assert!(token.len() > 256);
    assert_eq!(Remote::open(&domain, &token).unwrap().len().unwrap(), 40 * 4096);
    assert_eq!(region.key(), None);
}

#[test]
fn a_domain_that_cannot_be_closed_keeps_what_it_uses() {
    let (first, _peer) = domains();
    let fabric = Arc::new(());
    let (mut raw, mut region) = (std::ptr::null_mut(), std::ptr::null_mut());
    let bytes = Buffer::new(64);
    // SAFETY: the library is open; the region is put, and the domain closed, at the end.
    unsafe {
        let library = first.library().as_raw();
        let (none, config) = (std::ptr::null(), std::ptr::null());
        assert_eq!(sys::hmreg_domain_open_loopback(library, none, config, &mut raw), 0);
        let raw = std::ptr::NonNull::new(raw).unwrap();
        drop({
            let domain = Domain::from_raw(first.library(), raw, fabric.clone());
            let get =
                sys::hmreg_mr_get(raw.as_ptr(), bytes.as_ptr(), 64, Access::SEND.0, &mut region);
            assert_eq!(get, 0);
            domain
        });
        assert_eq!(Arc::strong_count(&fabric), 2);
        sys::hmreg_mr_put(region);
        assert_eq!(sys::hmreg_domain_close(raw.as_ptr()), 0);
    }
}

#[test]
fn any_thread_uses_and_drops_all_of_them() {
    fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<Library>();
    any_thread::<Domain>();
    any_thread::<Region>();
    any_thread::<Remote>();
    any_thread::<Buffer>();
    any_thread::<hmreg::Error>();

    let (owner, peer) = domains();
    let region = owner.get(&Buffer::new(64), .., Access::REMOTE_WRITE).unwrap();
    let remote = Remote::open(&peer, &region.token().unwrap()).unwrap();
    std::thread::spawn(move || {
        write(&peer, &remote, b"of a thread").unwrap();
        drop(region);
    })
    .join()
    .unwrap();
}

#[test]
fn memory_is_found_and_explained() {
    let (owner, _peer) = domains();
    let buffer = Buffer::new(64);
    let info = owner.library().query(buffer.as_ptr(), 64).unwrap();
    assert_eq!((info.iface, info.device), (sys::HMREG_IFACE_SYSTEM, -1));
    let region = owner.register(&buffer, .., Access::REMOTE_READ).unwrap();
    assert_eq!(region.explain().unwrap().path, sys::HMREG_PATH_SYSTEM);
    assert_eq!(region.query().unwrap().len, 64);
    assert_eq!(hmreg::version(), env!("CARGO_PKG_VERSION"));
}
