/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Between the client of hmreg_kfi in the kernel and the tests' programs.
 */
#ifndef TESTS_KFI_CALLS_H
#define TESTS_KFI_CALLS_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Memory of the kernel, with gaps or within one page as the names say. */
enum client_memory {
    MEMORY_KMALLOC, /* begins and ends anywhere */
    MEMORY_VMALLOC, /* pages out of order */
    MEMORY_ATTR,    /* kmalloc's, by kfi_mr_regattr() */
    MEMORY_PAGES,   /* bio vectors */
    MEMORY_LIST,    /* a scatterlist, mapped */
    MEMORY_USER,    /* a program's pages, pinned: address, length */
    MEMORY_DMABUF,  /* a dmabuf's pages, attached: fd, length */
    MEMORY_HALVES,  /* two ranges of one page that follow each other */
    MEMORY_GAP,     /* two ranges with a gap between them */
    MEMORY_COUNT,   /* that many pages: length */
};

/* Where the client awaits the program's connection, on iWARP. */
#define CLIENT_ADDRESS 0x0a000001
#define CLIENT_PORT    7471

/* client_open.client_qp. On iWARP a domain without one has one that is connected to the client. */
enum { QP_USUAL, QP_CONNECTED_TO_PROGRAM, QP_NONE };

/* client_open.handler */
enum client_handler {
    HANDLER_NONE,
    HANDLER_COUNTS,        /* its calls, as the others do */
    HANDLER_CLOSES,        /* the region of each event */
    HANDLER_CLOSES_UNREAD, /* a region whose event is unread */
    HANDLER_REPLACES,      /* closes it, registers another, and closes that */
    HANDLER_SLEEPS,        /* closes it, and sleeps until CLIENT_WAKE */
    HANDLER_CLOSES_DOMAIN, /* with it */
    HANDLER_CLOSES_DOMAIN_AND_SLEEPS,
};

struct client_open {
    __u32 asynchronous; /* with an event queue */
    __u32 handler;
    __u32 client_qp;
    __u32 sends;
    __u32 regions, pages;
    __u32 max_pages; /* out: of the device */
    __s32 rc;
};

struct client_reg {
    __u32 memory;
    __s32 fd;
    __u64 address, length; /* in for some kinds, length: out for all */
    __u64 access, offset, requested_key, flags;
    __u32 auth_key_size;
    __u32 index; /* out */
    __u64 key, iova;
    __s32 rc;
    __u32 output_untouched; /* after an error */
    __u32 allocations;      /* that the module made for this call */
    __u32 with_io;          /* of them, those that may wait for I/O */
};

struct client_bytes { /* byte i is seed + 7 * i */
    __u32 index, seed, compare;
    __u64 wrong;
};

struct client_connect { /* on iWARP the program connects after it */
    __u32 user_qpn, kernel_qpn;
    __u8 gid[16];
    __u32 gid_index, mtu;
};

struct client_close {
    __u32 index;
    __s32 rc;
    __u32 allocations, with_io;
};

struct client_bind {
    __u32 index, class, undo; /* undo: the endpoint is closed */
    __u64 flags;
    __s32 rc;
};

struct client_event {
    __u32 error;  /* in: read by kfi_eq_readerr() */
    __u32 unread; /* in: none is read, which the handler might want */
    __u32 size;   /* in: of the buffer of kfi_eq_read(); 0: of an entry */
    __s64 rc;     /* of the read */
    __u32 index;  /* the context's region */
    __u32 is_mr;  /* the event's fid is that region's */
    __u32 err, event;
    __u32 handled; /* calls of the handler that have returned */
    __s32 result;  /* of them: 0 or an error */
    __u32 domain_is_open;
    char text[64];
};

struct client_push { /* an RDMA write by the kernel */
    __u32 index;
    __u64 offset, length, address;
    __u32 rkey;
    __u32 elements; /* in: at most; out: used */
    __s32 rc;
};

/* Calls with wrong arguments. */
enum client_wrong_call {
    WRONG_NO_OUTPUT,
    WRONG_NO_BUFFER,
    WRONG_NO_LENGTH,
    WRONG_NO_COUNT,
    WRONG_NO_ATTR,
    WRONG_TYPE,
    WRONG_USER_ADDRESS, /* not the kernel's */
    WRONG_REGISTERS,    /* a device's, by ioremap() */
    WRONG_END,          /* beyond the last address */
    WRONG_NO_PAGE,
    WRONG_EMPTY_VECTOR,
    WRONG_EMPTY_ELEMENT, /* of a scatterlist */
    WRONG_SGE_NULL,
    WRONG_OPEN_NO_PD,
    WRONG_OPEN_NO_OUTPUT,
    WRONG_OPEN_PORT,
    WRONG_OPEN_PAGES,
    WRONG_OPEN_QP,        /* of another protection domain */
    WRONG_OPEN_QP_DIRECT, /* whose completions nothing polls */
    WRONG_BIND_NULL,
    WRONG_BIND_CLASS,
    WRONG_BIND_TWICE,
    WRONG_EQ_NO_OUTPUT,
    WRONG_EQ_READ_FLAGS,
    WRONG_EQ_READERR_FLAGS,
    WRONG_EQ_READ_NULL,
    WRONG_EQ_SREAD,
    WRONG_CALLS,
};

struct client_wrong {
    __u32 call;
    __s32 rc;
};

struct client_fault {
    char call[64]; /* "": none any more */
    __u32 skip;    /* calls that succeed before */
    __u32 times;
    __u32 hits; /* out: of the fault before */
};

struct client_fuzz {
    __u32 seed, steps;
};

/* What the random calls did, each of which is to have happened. */
enum {
    FUZZ_REGISTERED,
    FUZZ_REFUSED,
    FUZZ_GIVEN_UP,
    FUZZ_CLOSED,
    FUZZ_NOT_CLOSED,
    FUZZ_EVENTS,
    FUZZ_HANDLED,
    FUZZ_DOMAINS,
    FUZZ_COUNTS
};

struct client_fuzzed {
    __s32 rc;
    __u32 counts[FUZZ_COUNTS];
};

#define CLIENT_OPEN     _IOWR('k', 1, struct client_open)
#define CLIENT_REG      _IOWR('k', 2, struct client_reg)
#define CLIENT_BYTES    _IOWR('k', 3, struct client_bytes)
#define CLIENT_CONNECT  _IOWR('k', 4, struct client_connect)
#define CLIENT_CLOSE    _IOWR('k', 5, struct client_close)
#define CLIENT_BIND     _IOWR('k', 6, struct client_bind)
#define CLIENT_EVENT    _IOWR('k', 7, struct client_event)
#define CLIENT_PUSH     _IOWR('k', 8, struct client_push)
#define CLIENT_FAULT    _IOWR('k', 9, struct client_fault)
#define CLIENT_KEYS     _IOWR('k', 12, struct client_reg) /* of the region of an event */
#define CLIENT_WRONG    _IOWR('k', 13, struct client_wrong)
#define CLIENT_FINISH   _IO('k', 10) /* closes the domain; 1: while its handler sleeps on */
#define CLIENT_RELEASE  _IO('k', 15) /* the completions that are held */
#define CLIENT_HELD     _IO('k', 16) /* how many have come; beside other calls */
#define CLIENT_FUZZ     _IOW('k', 17, struct client_fuzz)    /* beside other calls */
#define CLIENT_FUZZ_END _IOWR('k', 18, struct client_fuzzed) /* closes all */
#define CLIENT_WAKE     _IO('k', 14)                         /* the handler */
#define CLIENT_INVALIDATED                                                                         \
    _IO('k', 11) /* tells the module that a peer has invalidated a region's key */

#endif
