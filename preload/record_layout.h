/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The layout of a trace file, in which the libraries that `hmreg run` loads into a program count
 * the program's registrations: a file of each process, mapped shared, so that its contents survive
 * _exit(2), exec and SIGKILL. tools/run/ reads it and trusts nothing in it.
 *
 * header | names | reasons | rows | live registrations | ranges
 *
 * The size is fixed; what does not fit is counted as lost. An element is claimed by an atomic
 * change of its state from RECORD_FREE to RECORD_BUSY, filled, and published as RECORD_READY; no
 * writer waits for another. So a key may have two elements, whose counts the reader adds. Each
 * count is written atomically, in no order with the others. Any change increments RECORD_VERSION.
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

/* What became of it. */
enum record_how {
    RECORD_PASSED = 1, /* passed on as the program made it */
    RECORD_MADE,       /* registered by hmreg: --gpu */
    RECORD_HOW_COUNT
};

/* Who may use a region. */
enum record_rights {
    RECORD_READ,    /* the NIC reads it for the program: what it sends */
    RECORD_WRITTEN, /* ...and may write it: received messages, what it reads from peers */
    RECORD_REMOTE,  /* peers may read or write it */
    RECORD_RIGHTS_COUNT
};

#define RECORD_MODE_GPU   1u
#define RECORD_MODE_WRONG 2u /* HMREG_RUN_MODE has a word that was left out */
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
    _Atomic uint64_t lost_rows, lost_live, lost_ranges, lost_names, lost_reasons;
    _Atomic uint64_t unknown_ends; /* deregistrations of a region that is not among the live ones */
    char rank[16];     /* of a job of MPI, as its launcher's environment says; "": none */
    char hmreg[16];    /* the library's version */
    char program[256]; /* the path of its executable */
    uint32_t by;       /* RECORD_BY_* */
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
    char text[768]; /* as struct hmreg_error has it */
};

struct record_key {
    uint8_t call;    /* enum record_call_kind */
    uint8_t how;     /* enum record_how */
    uint8_t iface;   /* enum hmreg_iface; 255: unknown */
    uint8_t path;    /* enum hmreg_path */
    uint8_t size;    /* class: the length has so many bits */
    uint8_t rights;  /* enum record_rights */
    uint16_t module; /* of the caller: index of its name */
    uint16_t nic;    /* index of its name */
    int16_t device;  /* -1: host memory */
    int32_t error;   /* the errno value of a failure; 0: it succeeded */
};

/* Registrations that are alike. */
struct record_row {
    _Atomic uint32_t state;
    uint32_t spare;
    struct record_key key;
    _Atomic uint64_t count, bytes, ns, longest_ns;
    _Atomic uint64_t ends, end_ns; /* of these, deregistered */
    _Atomic uint64_t end_failures; /* deregistrations that failed */
    _Atomic uint64_t freed;        /* memory that was unmapped while registered */
    _Atomic uint64_t looked;       /* deregistrations whose memory was looked at for that */
    uint64_t spare2;
};

/* A registration that exists. handle: of the region (the address of its ibv_mr or fid_mr); 0: free;
 * 1: being filled. */
struct record_live {
    _Atomic uint64_t handle;
    _Atomic uint64_t addr, len;
    _Atomic uint32_t row;   /* its index */
    _Atomic uint32_t freed; /* 1: its memory was found unmapped */
};

/* A range that was registered; tag: of its bounds, rights and protection domain; 0: free, 1: being
 * filled. */
struct record_range {
    _Atomic uint64_t tag;
    _Atomic uint64_t addr, len;
    _Atomic uint64_t count;    /* the first registration, and later ones of the same memory */
    _Atomic uint64_t again_ns; /* the time of these later ones */
    _Atomic uint64_t row;      /* of the last one */
    _Atomic uint64_t memory;   /* its number: see record_call */
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

/* The file beside the trace files in which processes that can make none count themselves. `hmreg
 * run` makes it, with its blocks, since a process may have no right or room to; each process maps
 * it when it begins, before it can change its root folder or its user. */
#define RECORD_LOST_FILE  "hmreg.lost"
#define RECORD_LOST_MAGIC UINT64_C(0x74736f6c6d6168) /* "hamlost" */
#define RECORD_LOSSES     63

enum record_lost_step {
    RECORD_LOST_LIBRARY = 1, /* the recorder cannot be loaded */
    RECORD_LOST_LIMIT,       /* RLIMIT_FSIZE is too low */
    RECORD_LOST_CREATE,      /* the file cannot be created */
    RECORD_LOST_ROOM,        /* it cannot be as long as it must be */
    RECORD_LOST_MAP,         /* it cannot be mapped */
    RECORD_LOST_STEP_COUNT
};

/* Processes that failed at one step with one errno value. */
struct record_loss {
    _Atomic uint32_t state; /* enum record_state */
    uint32_t step;
    int32_t error; /* 0: unknown */
    _Atomic uint32_t count;
    int32_t pid; /* of the first of them, and the name of its program: */
    char program[44];
};

struct record_lost {
    uint64_t magic;
    uint32_t version; /* RECORD_VERSION */
    uint32_t size;    /* of the whole file, bytes */
    uint64_t spare[6];
    struct record_loss losses[RECORD_LOSSES];
};

_Static_assert(sizeof(struct record_loss) == 64 && sizeof(struct record_lost) == 4096,
               "the layout is the same for every compiler");
_Static_assert(sizeof(struct record_header) == 488 && sizeof(struct record_name) == 256 &&
                   sizeof(struct record_reason) == 816 && sizeof(struct record_key) == 16 &&
                   sizeof(struct record_row) == 104 && sizeof(struct record_live) == 32 &&
                   sizeof(struct record_range) == 56,
               "the layout is the same for every compiler");

#endif
