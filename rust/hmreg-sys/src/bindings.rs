// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Of rust-bindgen 0.60.1, by hmreg-sys/generate.

pub type __uint8_t = ::std::os::raw::c_uchar;
pub type __uint32_t = ::std::os::raw::c_uint;
pub type __int64_t = ::std::os::raw::c_long;
pub type __uint64_t = ::std::os::raw::c_ulong;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct iovec {
    pub iov_base: *mut ::std::os::raw::c_void,
    pub iov_len: usize,
}
pub const HMREG_IFACE_SYSTEM: hmreg_iface = 0;
pub const HMREG_IFACE_CUDA: hmreg_iface = 1;
pub const HMREG_IFACE_ROCR: hmreg_iface = 2;
pub const HMREG_IFACE_ZE: hmreg_iface = 3;
pub const HMREG_IFACE_NEURON: hmreg_iface = 4;
pub const HMREG_IFACE_SYNAPSEAI: hmreg_iface = 5;
pub const HMREG_IFACE_MAX: hmreg_iface = 15;
pub type hmreg_iface = ::std::os::raw::c_uint;
pub const HMREG_MEM_HOST: hmreg_mem_kind = 0;
pub const HMREG_MEM_HOST_PINNED: hmreg_mem_kind = 1;
pub const HMREG_MEM_DEVICE: hmreg_mem_kind = 2;
pub const HMREG_MEM_MANAGED: hmreg_mem_kind = 3;
pub type hmreg_mem_kind = ::std::os::raw::c_uint;
pub const HMREG_PATH_NONE: hmreg_path = 0;
pub const HMREG_PATH_SYSTEM: hmreg_path = 1;
pub const HMREG_PATH_DMABUF: hmreg_path = 2;
pub const HMREG_PATH_PEERMEM: hmreg_path = 3;
pub const HMREG_PATH_MAPPED: hmreg_path = 4;
pub type hmreg_path = ::std::os::raw::c_uint;
pub const HMREG_WAY_NONE: hmreg_way = 0;
pub const HMREG_WAY_PLAIN: hmreg_way = 1;
pub const HMREG_WAY_DATA_DIRECT: hmreg_way = 2;
pub const HMREG_WAY_PCIE: hmreg_way = 3;
pub const HMREG_WAY_DATA_DIRECT_PCIE: hmreg_way = 4;
pub type hmreg_way = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_domain {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_mr {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_remote {
    _unused: [u8; 0],
}
extern "C" {
    pub fn hmreg_iface_name(iface: hmreg_iface) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn hmreg_mem_kind_name(kind: hmreg_mem_kind) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn hmreg_path_name(path: hmreg_path) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn hmreg_way_name(way: hmreg_way) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn hmreg_version() -> *const ::std::os::raw::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_error {
    pub code: ::std::os::raw::c_int,
    pub source: *const ::std::os::raw::c_char,
    pub vendor_code: i64,
    pub vendor_text: [::std::os::raw::c_char; 96usize],
    pub text: [::std::os::raw::c_char; 768usize],
}
extern "C" {
    pub fn hmreg_last_error() -> *const hmreg_error;
}
extern "C" {
    pub fn hmreg_strerror(code: ::std::os::raw::c_int) -> *const ::std::os::raw::c_char;
}
pub const HMREG_MONITOR_DEFAULT: hmreg_monitor = 0;
pub const HMREG_MONITOR_USERFAULTFD: hmreg_monitor = 1;
pub const HMREG_MONITOR_IMPORT: hmreg_monitor = 2;
pub const HMREG_MONITOR_DISABLED: hmreg_monitor = 3;
pub const HMREG_MONITOR_MEMHOOKS: hmreg_monitor = 4;
pub const HMREG_MONITOR_COUNTER: hmreg_monitor = 5;
pub type hmreg_monitor = ::std::os::raw::c_uint;
extern "C" {
    pub fn hmreg_monitor_name(monitor: hmreg_monitor) -> *const ::std::os::raw::c_char;
}
pub const HMREG_LOG_ERROR: hmreg_log_level = 1;
pub const HMREG_LOG_WARN: hmreg_log_level = 2;
pub const HMREG_LOG_INFO: hmreg_log_level = 3;
pub const HMREG_LOG_DEBUG: hmreg_log_level = 4;
pub type hmreg_log_level = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_config {
    pub size: usize,
    pub ifaces: u32,
    pub monitor: hmreg_monitor,
    pub log: ::std::option::Option<
        unsafe extern "C" fn(
            level: hmreg_log_level,
            text: *const ::std::os::raw::c_char,
            log_context: *mut ::std::os::raw::c_void,
        ),
    >,
    pub log_context: *mut ::std::os::raw::c_void,
    pub fork_max_bytes: u64,
}
extern "C" {
    pub fn hmreg_open(config: *const hmreg_config, out: *mut *mut hmreg) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_close(lib: *mut hmreg) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_monitor_info {
    pub size: usize,
    pub asked: hmreg_monitor,
    pub active: hmreg_monitor,
    pub userfaultfd: ::std::os::raw::c_int,
    pub events: u64,
    pub calls: u64,
    pub why: [::std::os::raw::c_char; 768usize],
}
extern "C" {
    pub fn hmreg_monitor_query(
        lib: *mut hmreg,
        out: *mut hmreg_monitor_info,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_runtime_info {
    pub size: usize,
    pub present: ::std::os::raw::c_int,
    pub devices: ::std::os::raw::c_int,
    pub version: [::std::os::raw::c_char; 48usize],
    pub library: [::std::os::raw::c_char; 128usize],
    pub why: [::std::os::raw::c_char; 256usize],
    pub unreported: [::std::os::raw::c_char; 256usize],
}
extern "C" {
    pub fn hmreg_runtime_query(
        lib: *mut hmreg,
        iface: hmreg_iface,
        out: *mut hmreg_runtime_info,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_pci {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
    pub valid: u8,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_device_info {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub flags: u32,
    pub pci: hmreg_pci,
    pub memory: u64,
}
extern "C" {
    pub fn hmreg_device_query(
        lib: *mut hmreg,
        iface: hmreg_iface,
        index: ::std::os::raw::c_int,
        out: *mut hmreg_device_info,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_mem_info {
    pub size: usize,
    pub iface: hmreg_iface,
    pub device: ::std::os::raw::c_int,
    pub pci: hmreg_pci,
    pub kind: hmreg_mem_kind,
    pub flags: u32,
    pub segments: u32,
    pub alloc_base: u64,
    pub alloc_len: u64,
    pub identity: u64,
    pub host_addr: u64,
}
extern "C" {
    pub fn hmreg_query(
        lib: *mut hmreg,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        out: *mut hmreg_mem_info,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_dmabuf {
    pub fd: ::std::os::raw::c_int,
    pub offset: u64,
    pub length: u64,
}
extern "C" {
    pub fn hmreg_export_dmabuf(
        lib: *mut hmreg,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        flags: u64,
        out: *mut hmreg_dmabuf,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_copy(
        lib: *mut hmreg,
        dst: *mut ::std::os::raw::c_void,
        src: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mem_alloc(
        lib: *mut hmreg,
        iface: hmreg_iface,
        device: ::std::os::raw::c_int,
        kind: hmreg_mem_kind,
        len: usize,
        out: *mut *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mem_free(
        lib: *mut hmreg,
        addr: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_CHECK_DEFAULT: hmreg_check = 0;
pub const HMREG_CHECK_ALWAYS: hmreg_check = 1;
pub const HMREG_CHECK_NOTICE: hmreg_check = 2;
pub type hmreg_check = ::std::os::raw::c_uint;
pub const HMREG_RIGHTS_EXACT: hmreg_rights = 0;
pub const HMREG_RIGHTS_LOCAL: hmreg_rights = 1;
pub const HMREG_RIGHTS_ANY: hmreg_rights = 2;
pub type hmreg_rights = ::std::os::raw::c_uint;
pub const HMREG_CHOICE_DEFAULT: hmreg_choice = 0;
pub const HMREG_CHOICE_OFF: hmreg_choice = 1;
pub const HMREG_CHOICE_ON: hmreg_choice = 2;
pub const HMREG_CHOICE_IF_POSSIBLE: hmreg_choice = 3;
pub type hmreg_choice = ::std::os::raw::c_uint;
pub const HMREG_POLICY_DEFAULT: hmreg_policy = 0;
pub const HMREG_POLICY_KEEP: hmreg_policy = 1;
pub const HMREG_POLICY_LAST_PUT: hmreg_policy = 2;
pub type hmreg_policy = ::std::os::raw::c_uint;
pub const HMREG_COVER_DEFAULT: hmreg_cover = 0;
pub const HMREG_COVER_EXACT: hmreg_cover = 1;
pub const HMREG_COVER_ALLOCATION: hmreg_cover = 2;
pub const HMREG_COVER_REMOTE: hmreg_cover = 3;
pub type hmreg_cover = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_domain_config {
    pub size: usize,
    pub flags: u32,
    pub order: [hmreg_path; 8usize],
    pub max_regions: u64,
    pub max_bytes: u64,
    pub check: [hmreg_check; 16usize],
    pub made: ::std::option::Option<
        unsafe extern "C" fn(
            mr: *const hmreg_mr,
            info: *const hmreg_mr_info,
            callback_context: *mut ::std::os::raw::c_void,
        ),
    >,
    pub ended: ::std::option::Option<
        unsafe extern "C" fn(
            mr: *const hmreg_mr,
            info: *const hmreg_mr_info,
            callback_context: *mut ::std::os::raw::c_void,
        ),
    >,
    pub callback_context: *mut ::std::os::raw::c_void,
    pub rights: hmreg_rights,
    pub ways: [hmreg_way; 8usize],
    pub sync_memops: hmreg_choice,
    pub policy: hmreg_policy,
    pub cover_max: u64,
    pub cover: hmreg_cover,
    pub key_size: u32,
    pub key_first: u64,
    pub key_last: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_domain_info {
    pub size: usize,
    pub provider: [::std::os::raw::c_char; 32usize],
    pub fabric: [::std::os::raw::c_char; 64usize],
    pub mr_mode: u32,
    pub key_size: u32,
    pub iov_limit: u32,
    pub max_len: u64,
    pub max_regions: u64,
    pub max_bytes: u64,
    pub nic: [::std::os::raw::c_char; 64usize],
    pub pci: hmreg_pci,
    pub lost: [::std::os::raw::c_char; 256usize],
}
extern "C" {
    pub fn hmreg_domain_query(
        domain: *mut hmreg_domain,
        out: *mut hmreg_domain_info,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_close(domain: *mut hmreg_domain) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_explain(
        domain: *mut hmreg_domain,
        iface: hmreg_iface,
        device: ::std::os::raw::c_int,
        out: *mut hmreg_explanation,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_mr_dmabuf {
    pub fd: ::std::os::raw::c_int,
    pub offset: u64,
    pub len: usize,
    pub base_addr: *mut ::std::os::raw::c_void,
}
pub const HMREG_ORDERING_DEFAULT: hmreg_ordering = 0;
pub const HMREG_ORDERING_STRICT: hmreg_ordering = 1;
pub const HMREG_ORDERING_RELAXED: hmreg_ordering = 2;
pub type hmreg_ordering = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_mr_attr {
    pub size: usize,
    pub iov: *const iovec,
    pub iov_count: usize,
    pub access: u64,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut ::std::os::raw::c_void,
    pub auth_key_size: usize,
    pub auth_key: *const u8,
    pub claim_iface: ::std::os::raw::c_int,
    pub iface: hmreg_iface,
    pub device: ::std::os::raw::c_int,
    pub dmabuf: *const hmreg_mr_dmabuf,
    pub hmem_data: *mut ::std::os::raw::c_void,
    pub page_size: usize,
    pub segments: *const hmreg_segment,
    pub segment_count: usize,
    pub ordering: hmreg_ordering,
    pub atomics: hmreg_choice,
    pub on_demand: hmreg_choice,
    pub set_iova: ::std::os::raw::c_int,
    pub iova: u64,
    pub optional_access: u64,
    pub provider_flags: u64,
    pub rails: u64,
    pub endpoint: *mut ::std::os::raw::c_void,
    pub claim_base: u64,
    pub claim_len: u64,
    pub claim_identity: u64,
    pub claim_kind: hmreg_mem_kind,
    pub endpoints: *const *mut ::std::os::raw::c_void,
    pub endpoint_count: usize,
    pub policy: hmreg_policy,
}
extern "C" {
    pub fn hmreg_mr_reg(
        domain: *mut hmreg_domain,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        access: u64,
        offset: u64,
        requested_key: u64,
        flags: u64,
        mr: *mut *mut hmreg_mr,
        context: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_regv(
        domain: *mut hmreg_domain,
        iov: *const iovec,
        count: usize,
        access: u64,
        offset: u64,
        requested_key: u64,
        flags: u64,
        mr: *mut *mut hmreg_mr,
        context: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_regattr(
        domain: *mut hmreg_domain,
        attr: *const hmreg_mr_attr,
        flags: u64,
        mr: *mut *mut hmreg_mr,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct hmreg_segment {
    pub kind: u32,
    pub u: hmreg_segment__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union hmreg_segment__bindgen_ty_1 {
    pub memory: iovec,
    pub dmabuf: hmreg_mr_dmabuf,
}
extern "C" {
    pub fn hmreg_mr_regsgl(
        domain: *mut hmreg_domain,
        segments: *const hmreg_segment,
        count: usize,
        access: u64,
        offset: u64,
        requested_key: u64,
        flags: u64,
        mr: *mut *mut hmreg_mr,
        context: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_piece_info {
    pub size: usize,
    pub local_addr: u64,
    pub len: u64,
    pub desc: *mut ::std::os::raw::c_void,
    pub key: u64,
    pub native: *mut ::std::os::raw::c_void,
    pub path: hmreg_path,
    pub way: hmreg_way,
}
extern "C" {
    pub fn hmreg_mr_piece(
        mr: *const hmreg_mr,
        index: usize,
        out: *mut hmreg_piece_info,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_raw_attr(
        mr: *const hmreg_mr,
        base_addr: *mut u64,
        raw_key: *mut u8,
        key_size: *mut usize,
        flags: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_map_raw(
        domain: *mut hmreg_domain,
        base_addr: u64,
        raw_key: *const u8,
        key_size: usize,
        key: *mut u64,
        flags: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_unmap_raw(domain: *mut hmreg_domain, key: u64) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_bind(
        mr: *mut hmreg_mr,
        object: *mut ::std::os::raw::c_void,
        flags: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_refresh(
        mr: *mut hmreg_mr,
        iov: *const iovec,
        count: usize,
        flags: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_enable(mr: *mut hmreg_mr) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_bind(
        domain: *mut hmreg_domain,
        object: *mut ::std::os::raw::c_void,
        flags: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_close(mr: *mut hmreg_mr) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_reason {
    pub path: hmreg_path,
    pub code: ::std::os::raw::c_int,
    pub vendor_code: i64,
    pub slug: [::std::os::raw::c_char; 32usize],
    pub text: [::std::os::raw::c_char; 512usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_explanation {
    pub size: usize,
    pub iface: hmreg_iface,
    pub device: ::std::os::raw::c_int,
    pub path: hmreg_path,
    pub refused: u32,
    pub reasons: [hmreg_reason; 10usize],
    pub asks: u32,
    pub asks_why: [::std::os::raw::c_char; 252usize],
    pub uncached_why: [::std::os::raw::c_char; 768usize],
    pub policy: hmreg_policy,
    pub rail_why: [::std::os::raw::c_char; 188usize],
    pub room_why: [::std::os::raw::c_char; 512usize],
}
extern "C" {
    pub fn hmreg_mr_explain(
        mr: *const hmreg_mr,
        out: *mut hmreg_explanation,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_get(
        domain: *mut hmreg_domain,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        access: u64,
        mr: *mut *mut hmreg_mr,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_get_attr(
        domain: *mut hmreg_domain,
        attr: *const hmreg_mr_attr,
        flags: u64,
        mr: *mut *mut hmreg_mr,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_put(mr: *mut hmreg_mr);
}
extern "C" {
    pub fn hmreg_mr_try_get(
        domain: *mut hmreg_domain,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        access: u64,
        mr: *mut *mut hmreg_mr,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_try_put(mr: *mut hmreg_mr) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_invalidate(
        lib: *mut hmreg,
        addr: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_flush(domain: *mut hmreg_domain) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_progress(domain: *mut hmreg_domain) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_stats {
    pub size: usize,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub invalidations: u64,
    pub uncached: u64,
    pub regions: u64,
    pub bytes: u64,
    pub retired: u64,
    pub caches: u64,
    pub shown: u64,
    pub evicted_limit: u64,
    pub evicted_memory: u64,
    pub evicted_room: u64,
    pub evicted_keys: u64,
    pub failures: u64,
    pub regions_max: u64,
    pub bytes_max: u64,
    pub waits: u64,
    pub waiting: u64,
    pub reg_ns: u64,
    pub reg_longest_ns: u64,
    pub reg_times: [u64; 40usize],
    pub wrong_puts: u64,
    pub gave_explicit: u64,
    pub gave_others: u64,
}
extern "C" {
    pub fn hmreg_domain_stats(
        domain: *mut hmreg_domain,
        out: *mut hmreg_stats,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_mr_keys {
    pub desc: *mut ::std::os::raw::c_void,
    pub key: u64,
    pub lkey: u32,
    pub rkey: u32,
    pub native: *mut ::std::os::raw::c_void,
    pub priv_: *mut ::std::os::raw::c_void,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_mr_place {
    pub local: u64,
    pub remote: u64,
    pub by_offset: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_mr_head {
    pub keys: *const hmreg_mr_keys,
    pub count: u32,
    pub generation: u32,
    pub domain: *const *const hmreg_mr_place,
    pub state: u64,
    pub addr: u64,
}
extern "C" {
    pub fn hmreg_mr_desc(mr: *const hmreg_mr) -> *mut ::std::os::raw::c_void;
}
extern "C" {
    pub fn hmreg_mr_key(mr: *const hmreg_mr) -> u64;
}
extern "C" {
    pub fn hmreg_mr_context(mr: *const hmreg_mr) -> *mut ::std::os::raw::c_void;
}
extern "C" {
    pub fn hmreg_mr_set_context(
        mr: *const hmreg_mr,
        context: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_mr_info {
    pub size: usize,
    pub iface: hmreg_iface,
    pub device: ::std::os::raw::c_int,
    pub path: hmreg_path,
    pub addr: u64,
    pub len: u64,
    pub access: u64,
    pub identity: u64,
    pub local_addr: u64,
    pub cached: ::std::os::raw::c_int,
    pub way: hmreg_way,
    pub asks: u32,
    pub policy: hmreg_policy,
}
extern "C" {
    pub fn hmreg_mr_query(mr: *const hmreg_mr, out: *mut hmreg_mr_info) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_pack(
        mr: *const hmreg_mr,
        buf: *mut ::std::os::raw::c_void,
        size: *mut usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_pack_range(
        mr: *const hmreg_mr,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        buf: *mut ::std::os::raw::c_void,
        size: *mut usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_pack_many(
        mrs: *const *mut hmreg_mr,
        count: usize,
        buf: *mut ::std::os::raw::c_void,
        size: *mut usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_remote_open(
        domain: *mut hmreg_domain,
        token: *const ::std::os::raw::c_void,
        size: usize,
        remote: *mut *mut hmreg_remote,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_remote_open_many(
        domain: *mut hmreg_domain,
        tokens: *const ::std::os::raw::c_void,
        size: usize,
        remotes: *mut *mut hmreg_remote,
        count: *mut usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_remote_close(remote: *mut hmreg_remote);
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_remote_info {
    pub size: usize,
    pub len: u64,
    pub access: u64,
    pub segments: u32,
    pub iface: hmreg_iface,
}
extern "C" {
    pub fn hmreg_remote_query(
        remote: *const hmreg_remote,
        out: *mut hmreg_remote_info,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_remote_addr(
        remote: *const hmreg_remote,
        offset: u64,
        len: usize,
        addr: *mut u64,
        key: *mut u64,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_REMOTE_CURRENT: hmreg_remote_state = 0;
pub const HMREG_REMOTE_RENEWED: hmreg_remote_state = 1;
pub const HMREG_REMOTE_DEAD: hmreg_remote_state = 2;
pub const HMREG_REMOTE_OTHER_LIFE: hmreg_remote_state = 3;
pub type hmreg_remote_state = ::std::os::raw::c_uint;
extern "C" {
    pub fn hmreg_remote_check(
        remote: *const hmreg_remote,
        token: *const ::std::os::raw::c_void,
        size: usize,
        state: *mut hmreg_remote_state,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_remote_renew(
        remote: *mut hmreg_remote,
        token: *const ::std::os::raw::c_void,
        size: usize,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_remote_flat {
    pub base: u64,
    pub len: u64,
    pub key: u64,
}
extern "C" {
    pub fn hmreg_remote_flatten(
        remote: *const hmreg_remote,
        out: *mut hmreg_remote_flat,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_DISTANCE_SELF: hmreg_distance = 0;
pub const HMREG_DISTANCE_SWITCH: hmreg_distance = 1;
pub const HMREG_DISTANCE_ROOT_PORT: hmreg_distance = 2;
pub const HMREG_DISTANCE_HOST_BRIDGE: hmreg_distance = 3;
pub const HMREG_DISTANCE_NUMA_NODE: hmreg_distance = 4;
pub const HMREG_DISTANCE_SYSTEM: hmreg_distance = 5;
pub const HMREG_DISTANCE_UNKNOWN: hmreg_distance = 6;
pub type hmreg_distance = ::std::os::raw::c_uint;
extern "C" {
    pub fn hmreg_distance_name(distance: hmreg_distance) -> *const ::std::os::raw::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_topology {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_topology_config {
    pub size: usize,
    pub xml: *const ::std::os::raw::c_char,
    pub root: *const ::std::os::raw::c_char,
}
extern "C" {
    pub fn hmreg_topology_open(
        lib: *mut hmreg,
        config: *const hmreg_topology_config,
        out: *mut *mut hmreg_topology,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_topology_close(topology: *mut hmreg_topology);
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_pci_place {
    pub size: usize,
    pub host_bridge: [::std::os::raw::c_char; 16usize],
    pub numa_node: ::std::os::raw::c_int,
    pub bridge_count: u32,
    pub bridges: [hmreg_pci; 16usize],
}
extern "C" {
    pub fn hmreg_topology_place(
        topology: *const hmreg_topology,
        pci: *const hmreg_pci,
        out: *mut hmreg_pci_place,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_PLACE_PCI: hmreg_place_kind = 1;
pub const HMREG_PLACE_DEVICE: hmreg_place_kind = 2;
pub const HMREG_PLACE_MEMORY: hmreg_place_kind = 3;
pub const HMREG_PLACE_NUMA_NODE: hmreg_place_kind = 4;
pub type hmreg_place_kind = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_place {
    pub size: usize,
    pub kind: hmreg_place_kind,
    pub pci: hmreg_pci,
    pub iface: hmreg_iface,
    pub device: ::std::os::raw::c_int,
    pub addr: *const ::std::os::raw::c_void,
    pub len: usize,
    pub numa_node: ::std::os::raw::c_int,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_nic_affinity {
    pub size: usize,
    pub nic: [::std::os::raw::c_char; 64usize],
    pub index: usize,
    pub pci: hmreg_pci,
    pub numa_node: ::std::os::raw::c_int,
    pub distance: hmreg_distance,
    pub numa_distance: u32,
    pub reason: [::std::os::raw::c_char; 192usize],
}
extern "C" {
    pub fn hmreg_topology_order_nics(
        topology: *const hmreg_topology,
        place: *const hmreg_place,
        nics: *const *const ::std::os::raw::c_char,
        nic_count: usize,
        out: *mut hmreg_nic_affinity,
        count: *mut usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_group_nearest(
        group: *mut hmreg_domain,
        topology: *const hmreg_topology,
        nearest: ::std::os::raw::c_uint,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_DISTANCE_COUNT: ::std::os::raw::c_int = 7;
pub const HMREG_BRIDGES_MAX: ::std::os::raw::c_int = 16;
pub const HMREG_NEAREST_LOCAL: ::std::os::raw::c_uint = 0;
pub const HMREG_GET_HOST: ::std::os::raw::c_ulong = 1073741824;
pub const HMREG_STATS_TIMES: ::std::os::raw::c_int = 40;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_group_config {
    pub size: usize,
    pub flags: u32,
    pub domain: *const hmreg_domain_config,
}
extern "C" {
    pub fn hmreg_group_open(
        lib: *mut hmreg,
        members: *const *mut hmreg_domain,
        count: usize,
        config: *const hmreg_group_config,
        out: *mut *mut hmreg_domain,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_rail(mr: *const hmreg_mr, rail: usize) -> *mut hmreg_mr;
}
extern "C" {
    pub fn hmreg_token_rail(
        token: *const ::std::os::raw::c_void,
        size: usize,
        rail: usize,
        rail_token: *mut *const ::std::os::raw::c_void,
        rail_size: *mut usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_remote_open_rails(
        domain: *mut hmreg_domain,
        token: *const ::std::os::raw::c_void,
        size: usize,
        remotes: *mut *mut hmreg_remote,
        count: usize,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_MEMBER_PRESENT: hmreg_member_state = 0;
pub const HMREG_MEMBER_WITHDRAWN: hmreg_member_state = 1;
pub const HMREG_MEMBER_REPLACING: hmreg_member_state = 2;
pub type hmreg_member_state = ::std::os::raw::c_uint;
extern "C" {
    pub fn hmreg_group_withdraw(
        group: *mut hmreg_domain,
        member: usize,
        why: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_group_replace(
        group: *mut hmreg_domain,
        member: usize,
        domain: *mut hmreg_domain,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_group_member {
    pub size: usize,
    pub state: hmreg_member_state,
    pub domain: *mut hmreg_domain,
    pub regions: usize,
    pub done: usize,
    pub failed: usize,
    pub why: [::std::os::raw::c_char; 256usize],
}
extern "C" {
    pub fn hmreg_group_query(
        group: *mut hmreg_domain,
        member: usize,
        out: *mut hmreg_group_member,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_GROUP_MAX: ::std::os::raw::c_int = 64;
pub const HMREG_GROUP_PARTIAL: ::std::os::raw::c_uint = 1;
pub const HMREG_GROUP_OWNS_MEMBERS: ::std::os::raw::c_uint = 2;
extern "C" {
    pub fn hmreg_hibernate(lib: *mut hmreg) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_thaw_config {
    pub size: usize,
    pub resumed: ::std::option::Option<
        unsafe extern "C" fn(mr: *mut hmreg_mr, context: *mut ::std::os::raw::c_void),
    >,
    pub dmabuf: ::std::option::Option<
        unsafe extern "C" fn(
            mr: *mut hmreg_mr,
            index: usize,
            dmabuf: *mut hmreg_mr_dmabuf,
            context: *mut ::std::os::raw::c_void,
        ) -> ::std::os::raw::c_int,
    >,
    pub failed: ::std::option::Option<
        unsafe extern "C" fn(
            mr: *mut hmreg_mr,
            why: *const hmreg_error,
            context: *mut ::std::os::raw::c_void,
        ),
    >,
    pub context: *mut ::std::os::raw::c_void,
}
extern "C" {
    pub fn hmreg_thaw(lib: *mut hmreg, config: *const hmreg_thaw_config) -> ::std::os::raw::c_int;
}
pub const HMREG_ETOOSMALL: ::std::os::raw::c_int = 257;
pub const HMREG_EOPBADSTATE: ::std::os::raw::c_int = 258;
pub const HMREG_EBADFLAGS: ::std::os::raw::c_int = 260;
pub const HMREG_ENOKEY: ::std::os::raw::c_int = 266;
pub const HMREG_IFACE_COUNT: ::std::os::raw::c_int = 4;
pub const HMREG_IFACES_STARTED: ::std::os::raw::c_uint = 2147483648;
pub const HMREG_PATH_COUNT: ::std::os::raw::c_int = 5;
pub const HMREG_PATHS_MAX: ::std::os::raw::c_int = 8;
pub const HMREG_WAY_COUNT: ::std::os::raw::c_int = 5;
pub const HMREG_WAYS_MAX: ::std::os::raw::c_int = 8;
pub const HMREG_READ: ::std::os::raw::c_ulong = 256;
pub const HMREG_WRITE: ::std::os::raw::c_ulong = 512;
pub const HMREG_RECV: ::std::os::raw::c_ulong = 1024;
pub const HMREG_SEND: ::std::os::raw::c_ulong = 2048;
pub const HMREG_REMOTE_READ: ::std::os::raw::c_ulong = 4096;
pub const HMREG_REMOTE_WRITE: ::std::os::raw::c_ulong = 8192;
pub const HMREG_ACCESS_LOCAL: ::std::os::raw::c_ulong = 3840;
pub const HMREG_ACCESS_REMOTE: ::std::os::raw::c_ulong = 12288;
pub const HMREG_ACCESS_ALL: ::std::os::raw::c_ulong = 16128;
pub const HMREG_MR_BASIC: ::std::os::raw::c_uint = 1;
pub const HMREG_MR_SCALABLE: ::std::os::raw::c_uint = 2;
pub const HMREG_MR_LOCAL: ::std::os::raw::c_uint = 4;
pub const HMREG_MR_RAW: ::std::os::raw::c_uint = 8;
pub const HMREG_MR_VIRT_ADDR: ::std::os::raw::c_uint = 16;
pub const HMREG_MR_ALLOCATED: ::std::os::raw::c_uint = 32;
pub const HMREG_MR_PROV_KEY: ::std::os::raw::c_uint = 64;
pub const HMREG_MR_MMU_NOTIFY: ::std::os::raw::c_uint = 128;
pub const HMREG_MR_RMA_EVENT: ::std::os::raw::c_uint = 256;
pub const HMREG_MR_ENDPOINT: ::std::os::raw::c_uint = 512;
pub const HMREG_MR_HMEM: ::std::os::raw::c_uint = 1024;
pub const HMREG_REG_DMABUF: ::std::os::raw::c_ulong = 1099511627776;
pub const HMREG_HMEM_HOST_ALLOC: ::std::os::raw::c_ulong = 35184372088832;
pub const HMREG_HMEM_DEVICE_ONLY: ::std::os::raw::c_ulong = 70368744177664;
pub const HMREG_RMA_PMEM: ::std::os::raw::c_ulong = 562949953421312;
pub const HMREG_RMA_EVENT: ::std::os::raw::c_ulong = 72057594037927936;
pub const HMREG_REG_SINGLE: ::std::os::raw::c_ulong = 4294967296;
pub const HMREG_REG_PARTS: ::std::os::raw::c_ulong = 8589934592;
pub const HMREG_REG_COVER: ::std::os::raw::c_ulong = 17179869184;
pub const HMREG_REG_EXACT: ::std::os::raw::c_ulong = 34359738368;
pub const HMREG_BIND_REG_MR: ::std::os::raw::c_ulong = 576460752303423488;
pub const HMREG_KEY_NOTAVAIL: ::std::os::raw::c_ulong = ::std::os::raw::c_ulong::MAX;
pub const HMREG_KEY_ANY: ::std::os::raw::c_ulong = ::std::os::raw::c_ulong::MAX;
pub const HMREG_VERBS_KEY_NOTAVAIL: ::std::os::raw::c_uint = 4294967295;
pub const HMREG_LIMIT_NONE: ::std::os::raw::c_ulong = ::std::os::raw::c_ulong::MAX;
pub const HMREG_DEVICE_ANY: ::std::os::raw::c_int = -1;
pub const HMREG_DEVICE_SIMULATED: ::std::os::raw::c_uint = 1;
pub const HMREG_DEVICE_DMABUF: ::std::os::raw::c_uint = 2;
pub const HMREG_MEM_INFO_CPU_ACCESS: ::std::os::raw::c_uint = 1;
pub const HMREG_MEM_INFO_EXPORTABLE: ::std::os::raw::c_uint = 2;
pub const HMREG_MEM_INFO_SIMULATED: ::std::os::raw::c_uint = 4;
pub const HMREG_EXPORT_PCIE: ::std::os::raw::c_ulong = 1;
pub const HMREG_DOMAIN_EXACT: ::std::os::raw::c_uint = 1;
pub const HMREG_DOMAIN_NO_CACHE: ::std::os::raw::c_uint = 2;
pub const HMREG_DOMAIN_SINGLE: ::std::os::raw::c_uint = 4;
pub const HMREG_DOMAIN_PARTS: ::std::os::raw::c_uint = 8;
pub const HMREG_CLAIM_NONE: ::std::os::raw::c_int = 0;
pub const HMREG_CLAIM_CHECKED: ::std::os::raw::c_int = 1;
pub const HMREG_CLAIM_TRUSTED: ::std::os::raw::c_int = 2;
pub const HMREG_SEGMENT_MEMORY: ::std::os::raw::c_int = 0;
pub const HMREG_SEGMENT_DMABUF: ::std::os::raw::c_int = 1;
pub const HMREG_SEGMENTS_MAX: ::std::os::raw::c_int = 1024;
pub const HMREG_REASONS_MAX: ::std::os::raw::c_int = 10;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_job {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_job_config {
    pub size: usize,
    pub workers: ::std::os::raw::c_uint,
    pub piece_len: u64,
    pub progress: ::std::option::Option<
        unsafe extern "C" fn(
            job: *mut hmreg_job,
            done: u64,
            total: u64,
            progress_context: *mut ::std::os::raw::c_void,
        ),
    >,
    pub progress_context: *mut ::std::os::raw::c_void,
}
extern "C" {
    pub fn hmreg_job_start(
        domain: *mut hmreg_domain,
        attr: *const hmreg_mr_attr,
        flags: u64,
        config: *const hmreg_job_config,
        out: *mut *mut hmreg_job,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_job_wait(
        job: *mut hmreg_job,
        timeout_ms: ::std::os::raw::c_int,
        mr: *mut *mut hmreg_mr,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_job_cancel(job: *mut hmreg_job) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_job_close(job: *mut hmreg_job) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_mr_reg_large(
        domain: *mut hmreg_domain,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        access: u64,
        config: *const hmreg_job_config,
        mr: *mut *mut hmreg_mr,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_JOB_WORKERS_MAX: ::std::os::raw::c_int = 64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_loopback_config {
    pub size: usize,
    pub mr_mode: u32,
    pub key_size: u32,
    pub iov_limit: u32,
    pub max_len: u64,
    pub auth_key_size: usize,
    pub auth_key: *const u8,
}
extern "C" {
    pub fn hmreg_domain_open_loopback(
        lib: *mut hmreg,
        loopback: *const hmreg_loopback_config,
        config: *const hmreg_domain_config,
        out: *mut *mut hmreg_domain,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_loopback_ep {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_loopback_counter {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_loopback_eq {
    _unused: [u8; 0],
}
extern "C" {
    pub fn hmreg_loopback_ep_open(
        domain: *mut hmreg_domain,
        out: *mut *mut hmreg_loopback_ep,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_loopback_ep_close(ep: *mut hmreg_loopback_ep) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_loopback_counter_open(
        domain: *mut hmreg_domain,
        out: *mut *mut hmreg_loopback_counter,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_loopback_counter_close(
        counter: *mut hmreg_loopback_counter,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_loopback_counter_read(counter: *const hmreg_loopback_counter) -> u64;
}
extern "C" {
    pub fn hmreg_loopback_eq_open(
        domain: *mut hmreg_domain,
        out: *mut *mut hmreg_loopback_eq,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_loopback_eq_close(eq: *mut hmreg_loopback_eq) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_loopback_event {
    pub size: usize,
    pub mr: *mut hmreg_mr,
    pub context: *mut ::std::os::raw::c_void,
}
extern "C" {
    pub fn hmreg_loopback_eq_read(
        eq: *mut hmreg_loopback_eq,
        out: *mut hmreg_loopback_event,
        timeout_ms: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_loopback_write(
        remote: *mut hmreg_remote,
        local: *const ::std::os::raw::c_void,
        len: usize,
        desc: *mut ::std::os::raw::c_void,
        raddr: u64,
        key: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_loopback_read(
        remote: *mut hmreg_remote,
        local: *mut ::std::os::raw::c_void,
        len: usize,
        desc: *mut ::std::os::raw::c_void,
        raddr: u64,
        key: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_lost(
        domain: *mut hmreg_domain,
        why: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fid_domain {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fi_info {
    _unused: [u8; 0],
}
extern "C" {
    pub fn hmreg_domain_open_ofi(
        lib: *mut hmreg,
        domain: *mut fid_domain,
        info: *const fi_info,
        config: *const hmreg_domain_config,
        out: *mut *mut hmreg_domain,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_renew_ofi(
        domain: *mut hmreg_domain,
        fid: *mut fid_domain,
        info: *const fi_info,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_OFI_ASYNC: ::std::os::raw::c_uint = 65536;
pub const HMREG_PLAN_MAX_LEN: hmreg_plan_kind = 0;
pub const HMREG_PLAN_MAX_MR: hmreg_plan_kind = 1;
pub const HMREG_PLAN_MEMLOCK: hmreg_plan_kind = 2;
pub const HMREG_PLAN_DESCRIPTORS: hmreg_plan_kind = 3;
pub const HMREG_PLAN_CACHE_REGIONS: hmreg_plan_kind = 4;
pub const HMREG_PLAN_CACHE_BYTES: hmreg_plan_kind = 5;
pub const HMREG_PLAN_MEMORY: hmreg_plan_kind = 6;
pub type hmreg_plan_kind = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_plan_limit {
    pub limit: u64,
    pub needed: u64,
    pub fits: u64,
    pub text: [::std::os::raw::c_char; 256usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_plan {
    pub size: usize,
    pub len: u64,
    pub path: hmreg_path,
    pub regions: u64,
    pub region_len: u64,
    pub last_len: u64,
    pub exports: u64,
    pub pinned: u64,
    pub fits: u64,
    pub cacheable: u64,
    pub limits: [hmreg_plan_limit; 7usize],
}
extern "C" {
    pub fn hmreg_domain_plan(
        domain: *mut hmreg_domain,
        iface: hmreg_iface,
        device: ::std::os::raw::c_int,
        len: u64,
        out: *mut hmreg_plan,
    ) -> ::std::os::raw::c_int;
}
pub const HMREG_PLAN_KINDS: ::std::os::raw::c_int = 7;
pub const HMREG_ASKS_RUNTIME: ::std::os::raw::c_uint = 1;
pub const HMREG_ASKS_KERNEL: ::std::os::raw::c_uint = 2;
extern "C" {
    pub fn hmreg_suspend(
        lib: *mut hmreg,
        addr: *const ::std::os::raw::c_void,
        len: usize,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_resume_config {
    pub size: usize,
    pub resumed: ::std::option::Option<
        unsafe extern "C" fn(mr: *mut hmreg_mr, context: *mut ::std::os::raw::c_void),
    >,
    pub dmabuf: ::std::option::Option<
        unsafe extern "C" fn(
            mr: *mut hmreg_mr,
            index: usize,
            dmabuf: *mut hmreg_mr_dmabuf,
            context: *mut ::std::os::raw::c_void,
        ) -> ::std::os::raw::c_int,
    >,
    pub context: *mut ::std::os::raw::c_void,
}
extern "C" {
    pub fn hmreg_resume(
        lib: *mut hmreg,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        config: *const hmreg_resume_config,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_table {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_table_entry {
    pub base: u64,
    pub key: u64,
    pub sequence: u32,
    pub flags: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_table_short {
    pub base: u64,
    pub key: u32,
    pub sequence: u32,
}
extern "C" {
    pub fn hmreg_table_open(
        domain: *mut hmreg_domain,
        memory: *mut ::std::os::raw::c_void,
        tokens: usize,
        flags: u64,
        out: *mut *mut hmreg_table,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_table_write(
        table: *mut hmreg_table,
        first: usize,
        count: usize,
        tokens: *const ::std::os::raw::c_void,
        size: usize,
        stride: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_table_close(table: *mut hmreg_table);
}
pub const HMREG_TABLE_SHORT: ::std::os::raw::c_uint = 1;
pub const HMREG_TABLE_BIG_ENDIAN: ::std::os::raw::c_uint = 2;
pub const HMREG_TABLE_ENTRY_FILLED: ::std::os::raw::c_uint = 1;
pub const HMREG_TABLE_ENTRY_READ: ::std::os::raw::c_uint = 2;
pub const HMREG_TABLE_ENTRY_WRITE: ::std::os::raw::c_uint = 4;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_pd {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_qp {
    _unused: [u8; 0],
}
pub const IBV_MW_TYPE_1: ibv_mw_type = 1;
pub const IBV_MW_TYPE_2: ibv_mw_type = 2;
pub type ibv_mw_type = ::std::os::raw::c_uint;
extern "C" {
    pub fn hmreg_domain_open_verbs(
        lib: *mut hmreg,
        pd: *mut ibv_pd,
        config: *const hmreg_domain_config,
        out: *mut *mut hmreg_domain,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_domain_renew_verbs(
        domain: *mut hmreg_domain,
        pd: *mut ibv_pd,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hmreg_window {
    _unused: [u8; 0],
}
extern "C" {
    pub fn hmreg_window_open(
        mr: *mut hmreg_mr,
        addr: *const ::std::os::raw::c_void,
        len: usize,
        access: u64,
        qp: *mut ibv_qp,
        type_: ibv_mw_type,
        wr_id: u64,
        out: *mut *mut hmreg_window,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn hmreg_window_rkey(window: *const hmreg_window) -> u32;
}
extern "C" {
    pub fn hmreg_window_close(window: *mut hmreg_window) -> ::std::os::raw::c_int;
}
pub const HMREG_VERBS_RELAXED_ORDERING: ::std::os::raw::c_uint = 65536;
pub const HMREG_VERBS_ON_DEMAND: ::std::os::raw::c_uint = 131072;
pub const HMREG_VERBS_MEMORY_WINDOWS: ::std::os::raw::c_uint = 262144;
pub const HMREG_VERBS_ATOMICS: ::std::os::raw::c_uint = 524288;
pub const HMREG_VERBS_ATOMICS_IF_POSSIBLE: ::std::os::raw::c_uint = 1048576;
