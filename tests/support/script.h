/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A provider that follows a script, for tests of the core: the result of each path for each device,
 * and a record of the calls. With it a fixture: a library with the tests' vendors, a domain, and
 * memory of two devices.
 */
#ifndef TESTS_SCRIPT_H
#define TESTS_SCRIPT_H

#include "tests/support/test.h"

#include <hmreg/job.h>
#include <sys/uio.h>

#define SCRIPT_CALLS   1100
#define SCRIPT_RANGES  64
#define SCRIPT_DOMAINS 32
#define FIXTURE_BYTES  (3 * 65536)

/* As struct provider_options has them. */
struct script_options {
    enum hmreg_ordering ordering;
    enum hmreg_choice atomics, on_demand;
    int set_iova;
    uint64_t iova;
};

struct script_call {
    enum hmreg_path path;
    struct iovec iov[SCRIPT_RANGES];
    size_t count;
    uint64_t access, requested_key, flags;
    enum hmreg_iface iface;
    int device;
    enum hmreg_way way;
    bool pcie;                  /* the descriptor has the PCIe mapping */
    struct hmreg_dmabuf dmabuf; /* fd -1: none */
    char first;                 /* the region's first byte as the provider reads it */
    void *context;
    struct script_options options;
};

struct script {
    int can[HMREG_PATH_COUNT][2];    /* the result of can() for this device */
    int refuse[HMREG_PATH_COUNT][2]; /* reg refuses the path with it */
    int refuse_way[HMREG_WAY_COUNT]; /* reg refuses the way of path dmabuf with it */
    int fail[HMREG_PATH_COUNT];      /* reg fails with it... */
    int times;                       /* for so many calls; -1: all... */
    unsigned fail_index;             /* ...this registration, from 1, alone; 0: any */
    int dereg;                       /* the result of dereg... */
    size_t dereg_index;              /* ...for the region of this registration, from 1; 0: all */
    uint64_t given_key;              /* not 0: the key regions get, whatever was requested */
    struct script_call calls[SCRIPT_CALLS];
    unsigned count, live, destroys;
    bool unmapped;             /* the ranges are addresses only: their bytes are not read */
    struct iovec refreshed[8]; /* the parts of the last calls of refresh */
    unsigned refreshes;

    /* Called with the domain's number. Not 0: what the registration fails with. NULL: none. */
    int (*before_reg)(unsigned domain);
    void (*after_reg)(void); /* of one that has not failed */
    void (*after_dereg)(void);
    int map_code, unmap_code;          /* the results of map_raw and unmap_raw */
    int keys, keys_of[SCRIPT_DOMAINS]; /* mapped raw keys: all, and of each domain */
};
extern struct script script;

/* A domain's abilities, as struct provider_caps has them. */
struct script_caps {
    char fabric[64];
    uint32_t mr_mode; /* with HMREG_MR_RAW, a raw key's local one is its bytes plus the base */
    uint32_t key_size, iov_limit;
    uint64_t max_len, max_mr;
    bool async, single, any_thread, data_direct, pcie, pins;
    char nic[64];
    struct hmreg_pci pci;
    unsigned number; /* the test's, of the domain: below SCRIPT_DOMAINS */
};
extern const struct script_caps script_caps; /* virtual addresses, the caller's keys, all options
                                                but optional_access */
/* caps: NULL for the usual. */
int script_domain(struct hmreg *lib, const struct script_caps *caps,
                  const struct hmreg_domain_config *config, struct hmreg_domain **out);

const struct script_call *script_last(void);

struct script_fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory[2]; /* FIXTURE_BYTES of each of cuda's devices, full of 'a' and 'b' */
};

/* Resets vendors and script, and opens until the case returns. caps, config: NULL for the usual. */
void script_open(struct script_fixture *fixture, const struct script_caps *caps,
                 const struct hmreg_domain_config *config);
void script_close(struct script_fixture *fixture);
/* The case has closed all itself. */
void script_closed(void);

/* Registers four ranges of `len` bytes as a job of as many pieces, with all rights and key 5. One
 * thread registers, and where the fabric must not be called on any thread, those that wait. */
int script_job(struct script_fixture *fixture, size_t len, struct hmreg_job **job);

/* Registers with all rights and key 5. */
int script_reg(struct script_fixture *fixture, void *addr, size_t len, struct hmreg_mr **mr);

/* The registration fails, changes nothing and leaves nothing. */
#define assert_reg_fails(call, mr, code, words)                                                    \
    do {                                                                                           \
        unsigned live_ = script.live;                                                              \
        int fds_ = test_count_fds();                                                               \
                                                                                                   \
        (mr) = (void *)1;                                                                          \
        assert_fails(call, code, words);                                                           \
        assert_ptr_equal(mr, (void *)1);                                                           \
        assert_int_equal(script.live, live_);                                                      \
        assert_int_equal(test_count_fds(), fds_);                                                  \
    } while (0)

#endif
