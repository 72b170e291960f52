/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Key tables: the addresses and keys of many peers' regions, as an array in memory of any kind, for
 * transfers that a device starts (libhmreg).
 *
 * Rail r of token i is entry i * rails + r; rails is the number of the group's members, or 1 if the
 * table's domain is no group. The table's memory is the caller's; the library writes it, readers
 * read it without the library, on any CPU or device, and take no lock. An entry is replaced while
 * they read by this protocol:
 *
 * The writer makes `sequence` odd, then writes the other fields, then makes it even, a value that
 * the entry did not have before. Each step is visible before the next begins: on a CPU by release
 * stores; in a device's memory each is a copy by the device's runtime, which has ended.
 *
 * A reader loads `sequence`, then the other fields in any order, then `sequence` again, each step
 * complete before the next begins: on a CPU by acquire loads, on a device by volatile loads and
 * fences (CUDA's __threadfence_system). If the first is odd or the two differ, the entry is being
 * replaced: the reader takes another peer, or tries again.
 *
 * hmreg_table_load() is such a reader. What a reader has loaded stays what the peer offered then;
 * with raw keys it can be used until the write after the one that replaced it.
 */
#ifndef HMREG_TABLE_H
#define HMREG_TABLE_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct hmreg_table;

/* Flags of a table. */
#define HMREG_TABLE_SHORT (1u << 0) /* entries are struct hmreg_table_short */
#define HMREG_TABLE_BIG_ENDIAN                                                                     \
    (1u << 1) /* base and key are big-endian, as NICs take them; else \ little-endian. sequence    \
                 and flags have the CPU's byte order */

/* Flags of an entry. */
#define HMREG_TABLE_ENTRY_FILLED                                                                   \
    (1u << 0) /* else the token has no such rail, or none was written yet */
#define HMREG_TABLE_ENTRY_READ  (1u << 1) /* the peer grants HMREG_REMOTE_READ */
#define HMREG_TABLE_ENTRY_WRITE (1u << 2) /* ... HMREG_REMOTE_WRITE */

/* Both structs are final. An entry that is not filled has base 0 and key HMREG_KEY_NOTAVAIL; in the
 * short form its key is HMREG_VERBS_KEY_NOTAVAIL. */
struct hmreg_table_entry {
    uint64_t base; /* the address of the region's first byte, for RMA */
    uint64_t key;
    uint32_t sequence;
    uint32_t flags; /* HMREG_TABLE_ENTRY_* */
};

struct hmreg_table_short {
    uint64_t base;
    uint32_t key;
    uint32_t sequence;
};

/*
 * Opens a table of `tokens` tokens and marks all its entries as not filled. domain: of the peers'
 * provider kind, or a group of such domains. memory: tokens * rails entries, of any kind, aligned
 * to 8 bytes; it must outlive the table, and only the table may write it. flags: HMREG_TABLE_SHORT,
 * HMREG_TABLE_BIG_ENDIAN. Until the table is closed, hmreg_domain_close() returns -EBUSY. -EINVAL:
 * an argument is NULL, tokens is 0, memory is not aligned, or its end wraps. -HMREG_EBADFLAGS.
 * -EFAULT: the memory is not mapped for writing. -ENOMEM. Other errors of hmreg_copy().
 */
int hmreg_table_open(struct hmreg_domain *domain, void *memory, size_t tokens, uint64_t flags,
                     struct hmreg_table **out);

/*
 * Opens the `count` tokens in size bytes at `tokens`, such as an all-gather's result, and writes
 * their entries, from token `first` of the table on. Readers may read meanwhile. Each is a region's
 * token; on a group, the token of a group's region. stride: bytes from one token's begin to the
 * next's; 0: they follow each other. tokens NULL and size 0: the entries become not filled, for
 * instance because the peer has ended. Raw keys are mapped first. The entries' previous keys stay
 * mapped until the next write or close, for transfers that already loaded them. The entry of a
 * withdrawn member's rail is not filled; on a group with HMREG_GROUP_PARTIAL, nor is that of a rail
 * that cannot be opened. If another call is changing the table: -EBUSY. -EINVAL: table is NULL,
 * tokens is NULL and size is not 0, or count is 0. -ERANGE: the table has no token first + count
 * - 1. -EXDEV: a region has several ranges, or hmreg_remote_open() returns -EXDEV for a token.
 * -EOVERFLOW: a key does not fit the short form. -ENOENT: a token has none of the table's rails.
 * -ENOMEM. Errors of hmreg_remote_open(). After each of these errors the text names the token, and
 * no entry has changed. If the table is in device memory, other errors of hmreg_copy(): each of
 * these entries is then old, new or unreadable (odd), until it is written again.
 */
int hmreg_table_write(struct hmreg_table *table, size_t first, size_t count, const void *tokens,
                      size_t size, size_t stride);

/* Closes a table; no other call may use it. NULL is accepted. It unmaps raw keys, and leaves the
 * memory as it is. */
void hmreg_table_close(struct hmreg_table *table);

/* Loads an entry by the reader's protocol, in the caller's code. It checks no pointers and records
 * no error. -EAGAIN: the entry is being replaced, *out is undefined. -ENOENT: it is not filled.
 * HMREG_NO_INLINE leaves these out, for parsers of declarations. */
#ifndef HMREG_NO_INLINE
static inline int hmreg_table_load(const struct hmreg_table_entry *entry,
                                   struct hmreg_table_entry *out);
static inline int hmreg_table_load_short(const struct hmreg_table_short *entry,
                                         struct hmreg_table_short *out);

static inline int hmreg_table_load(const struct hmreg_table_entry *entry,
                                   struct hmreg_table_entry *out)
{
    out->sequence = __atomic_load_n(&entry->sequence, __ATOMIC_ACQUIRE);
    out->base = __atomic_load_n(&entry->base, __ATOMIC_ACQUIRE);
    out->key = __atomic_load_n(&entry->key, __ATOMIC_ACQUIRE);
    out->flags = __atomic_load_n(&entry->flags, __ATOMIC_ACQUIRE);
    if (out->sequence & 1 || out->sequence != __atomic_load_n(&entry->sequence, __ATOMIC_RELAXED))
        return -EAGAIN;
    return out->flags & HMREG_TABLE_ENTRY_FILLED ? 0 : -ENOENT;
}

static inline int hmreg_table_load_short(const struct hmreg_table_short *entry,
                                         struct hmreg_table_short *out)
{
    out->sequence = __atomic_load_n(&entry->sequence, __ATOMIC_ACQUIRE);
    out->base = __atomic_load_n(&entry->base, __ATOMIC_ACQUIRE);
    out->key = __atomic_load_n(&entry->key, __ATOMIC_ACQUIRE);
    if (out->sequence & 1 || out->sequence != __atomic_load_n(&entry->sequence, __ATOMIC_RELAXED))
        return -EAGAIN;
    return out->key != HMREG_VERBS_KEY_NOTAVAIL ? 0 : -ENOENT;
}
#endif

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
