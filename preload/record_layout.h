/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The layout of a trace file. Libraries that `hmreg run` loads into a program count its
 * registrations there. Each process maps a file of its own, shared, so that the counts survive
 * _exit(2), exec and SIGKILL. tools/run/ reads it and trusts nothing in it.
 *
 * header | names | reasons | rows | live registrations | ranges
 *
 * The size is fixed; elements that do not fit are counted in dropped_*. An element is claimed by an
 * atomic change of its state from RECORD_FREE to RECORD_BUSY, filled, and published as
 * RECORD_READY; no writer waits for another. So a key may have two elements; the reader adds their
 * counts. Counts are atomic and unordered. Any change increments RECORD_VERSION.
 */
#ifndef HMREG_PRELOAD_RECORD_LAYOUT_H
#define HMREG_PRELOAD_RECORD_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#define RECORD_MAGIC   UINT64_C(0x65636172746d6168) /* "hamtrace", read as little-endian */
#define RECORD_VERSION 7
#define RECORD_SUFFIX  ".hmreg-trace" /* of the file's name */

enum record_state { RECORD_FREE, RECORD_BUSY, RECORD_READY };

/* The function that the program called. */
enum record_call_kind {
    RECORD_REG_MR = 1,
    RECORD_REG_MR_IOVA,
    RECORD_REG_MR_IOVA2,
    RECORD_REG_MR_EX,
    RECORD_REG_DMABUF_MR,
    RECORD_REREG_MR,
    RECORD_FI_MR_REG,
    RECORD_FI_MR_REGV,
    RECORD_FI_MR_REGATTR,
    RECORD_REG_BUF_MR,
    RECORD_CALL_COUNT
};

/* The name of a call; "?" for an unknown one. */
static inline const char *record_call_name(unsigned call)
{
    static const char *const names[RECORD_CALL_COUNT] = {
        [RECORD_REG_MR] = "ibv_reg_mr",
        [RECORD_REG_MR_IOVA] = "ibv_reg_mr_iova",
        [RECORD_REG_MR_IOVA2] = "ibv_reg_mr_iova2",
        [RECORD_REG_MR_EX] = "ibv_reg_mr_ex",
        [RECORD_REG_DMABUF_MR] = "ibv_reg_dmabuf_mr",
        [RECORD_REREG_MR] = "ibv_rereg_mr",
        [RECORD_FI_MR_REG] = "fi_mr_reg",
        [RECORD_FI_MR_REGV] = "fi_mr_regv",
        [RECORD_FI_MR_REGATTR] = "fi_mr_regattr",
        [RECORD_REG_BUF_MR] = "ibv_reg_buf_mr",
    };

    return call < RECORD_CALL_COUNT && names[call] ? names[call] : "?";
}

/* How the registration was made. */
enum record_how {
    RECORD_PASSED = 1, /* the program's call was passed on unchanged */
    RECORD_MADE,       /* hmreg registered (--gpu) */
    RECORD_HOW_COUNT
};

/* Who may use a region. */
enum record_rights {
    RECORD_READ,    /* the NIC reads it for the program, to send */
    RECORD_WRITTEN, /* ... and may write it: received messages, reads from peers */
    RECORD_REMOTE,  /* peers may read or write it */
    RECORD_RIGHTS_COUNT
};

#define RECORD_MODE_GPU   1u
#define RECORD_MODE_WRONG 2u /* HMREG_RUN_MODE has an unknown word, which was ignored */
#define RECORD_MODE_WATCH                                                                          \
    4u /* ranges count as registered again only while the memory is the same */

/* How libibverbs' calls reach hmreg: libhmreg-preload.so, libhmreg-audit.so. */
#define RECORD_BY_PRELOAD 1u
#define RECORD_BY_AUDIT   2u

#define RECORD_NAMES   256
#define RECORD_REASONS 64
#define RECORD_ROWS    1024
#define RECORD_LIVE    16384
#define RECORD_RANGES  4096

struct record_header {
    uint64_t magic;
    uint32_t version;
    uint32_t size; /* of the whole file, bytes */
    int32_t pid, parent;
    uint32_t mode;          /* RECORD_MODE_* */
    _Atomic uint32_t ended; /* 1: the process ended by exit(3) or a return from main() */
    int64_t began;          /* CLOCK_REALTIME, ns */
    _Atomic uint64_t dropped_rows, dropped_live, dropped_ranges, dropped_names, dropped_reasons;
    _Atomic uint64_t unknown_ends; /* deregistrations of regions that are not in `live` */
    char rank[16];                 /* MPI rank, from the launcher's environment; "": none */
    char hmreg[16];                /* the library's version */
    char program[256];             /* the path of its executable */
    uint32_t by;                   /* RECORD_BY_* */
    uint32_t spare_by;
    uint64_t spare[13];
};

/* A module's path, or a device's or a domain's name. Index 0 is "unknown". */
struct record_name {
    _Atomic uint32_t state;
    char text[252];
};

/* Why calls were passed on unchanged. */
struct record_reason {
    _Atomic uint32_t state;
    uint32_t spare;
    _Atomic uint64_t count;
    char slug[32];  /* a stable name */
    char text[768]; /* as long as in struct hmreg_error */
};

struct record_key {
    uint8_t call;    /* enum record_call_kind */
    uint8_t how;     /* enum record_how */
    uint8_t iface;   /* enum hmreg_iface; 255: unknown */
    uint8_t path;    /* enum hmreg_path */
    uint8_t size;    /* number of bits of the length */
    uint8_t rights;  /* enum record_rights */
    uint16_t module; /* index of the caller's module in names */
    uint16_t nic;    /* index of the device in names */
    int16_t device;  /* -1: host memory */
    int32_t error;   /* the errno value of a failure; 0: it succeeded */
};

/* Registrations with equal keys. */
struct record_row {
    _Atomic uint32_t state;
    uint32_t spare;
    struct record_key key;
    _Atomic uint64_t count, bytes, ns, longest_ns;
    _Atomic uint64_t ends, end_ns; /* deregistrations of them */
    _Atomic uint64_t end_failures; /* deregistrations that failed */
    _Atomic uint64_t freed;        /* deregistrations whose memory was unmapped while registered */
    _Atomic uint64_t looked;       /* deregistrations whose memory was checked for that */
    uint64_t spare2;
};

/* A live registration. handle: the address of its ibv_mr or fid_mr; 0: free; 1: being filled. */
struct record_live {
    _Atomic uint64_t handle;
    _Atomic uint64_t addr, len;
    _Atomic uint32_t row;   /* index of its row */
    _Atomic uint32_t freed; /* 1: its memory was found unmapped */
};

/* A registered range. tag: a hash of its bounds, rights and protection domain; 0: free, 1: being
 * filled. */
struct record_range {
    _Atomic uint64_t tag;
    _Atomic uint64_t addr, len;
    _Atomic uint64_t count;    /* the first registration, and repeated ones of unchanged memory */
    _Atomic uint64_t again_ns; /* the time of the repeated ones */
    _Atomic uint64_t row;      /* of the last registration */
    _Atomic uint64_t memory;   /* of the last registration: see record_call */
};

struct record_layout {
    struct record_header header;
    struct record_name names[RECORD_NAMES];
    struct record_reason reasons[RECORD_REASONS];
    struct record_row rows[RECORD_ROWS];
    struct record_live live[RECORD_LIVE];
    struct record_range ranges[RECORD_RANGES];
};

/* ---- processes without a trace file -------------------------------------------------------- */

/* The file beside the trace files in which processes without a trace file count themselves. `hmreg
 * run` makes it and its blocks, since a process may lack the right or the room. Each process maps
 * it at its start, before it can change its root folder or its user. */
#define RECORD_UNTRACED_FILE  "hmreg.lost"
#define RECORD_UNTRACED_MAGIC UINT64_C(0x74736f6c6d6168) /* "hamlost" */
#define RECORD_UNTRACED_MAX   63

enum record_untraced_step {
    RECORD_UNTRACED_LIBRARY = 1, /* the recorder cannot be loaded */
    RECORD_UNTRACED_LIMIT,       /* RLIMIT_FSIZE is too low */
    RECORD_UNTRACED_CREATE,      /* the file cannot be created */
    RECORD_UNTRACED_ROOM,        /* the file cannot be allocated at full length */
    RECORD_UNTRACED_MAP,         /* the file cannot be mapped */
    RECORD_UNTRACED_STEP_COUNT
};

/* Processes that failed at one step with one errno value. */
struct record_untraced {
    _Atomic uint32_t state; /* enum record_state */
    uint32_t step;
    int32_t error; /* 0: unknown */
    _Atomic uint32_t count;
    int32_t pid; /* of the first process, with its program's name: */
    char program[44];
};

struct record_untraced_file {
    uint64_t magic;
    uint32_t version; /* RECORD_VERSION */
    uint32_t size;    /* of the whole file, bytes */
    uint64_t spare[6];
    struct record_untraced causes[RECORD_UNTRACED_MAX];
};

_Static_assert(sizeof(struct record_untraced) == 64 && sizeof(struct record_untraced_file) == 4096,
               "the layout is the same for every compiler");
_Static_assert(sizeof(struct record_header) == 488 && sizeof(struct record_name) == 256 &&
                   sizeof(struct record_reason) == 816 && sizeof(struct record_key) == 16 &&
                   sizeof(struct record_row) == 104 && sizeof(struct record_live) == 32 &&
                   sizeof(struct record_range) == 56,
               "the layout is the same for every compiler");

#endif
