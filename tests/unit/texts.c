/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Remedies stand at the end of a sentence and arrive whole: each sentence of the library, read from
 * its sources and made as long as it gets, as an error and as the reason of a refused path, with
 * the element, the rail and the way before it.
 */

/* The longest sentences are no fabric's or runtime's: the case says them itself. */
#include "core/base/error.h"
#include "core/contract/provider.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <ctype.h>
#include <fts.h>

#define LONGEST 700 /* of a sentence */
#define TEXTS   1200
#define RAILS   2
#define BYTES   4096

/* ---- sentences, read from the sources --------------------------------------------------- */

struct sentence {
    char text[LONGEST];
    bool is_reason; /* of a path: of a refusal, or of an export, whose error becomes the reason */
};

static struct sentence sentences[TEXTS];
static size_t count, reasons;

static void add(char *text, const char *words, size_t len)
{
    assert_true(strlen(text) + len < LONGEST);
    strncat(text, words, len);
}

#define WORDS '\1' /* in the place of %s */

/* What a conversion prints at the most. Returns what is behind it. */
static const char *expand(const char *at, char *text)
{
    size_t len = strcspn(at, "%csdiuxXp") + 1;

    if (at[len - 1] == 's')
        add(text, (const char[]){WORDS}, 1);
    else if (at[len - 1] == '%' || at[len - 1] == 'c')
        add(text, "%", 1);
    else
        add(text, "18446744073709551615", 20);
    return at + len;
}

/* Of several words the last may be advice; the others are names. */
static void expand_words(const char *text, char *out)
{
    static const char name[] = "name-of-63-bytes-----------------------------------------------",
                      advice[] = "advice of 119 bytes (the longest has 111), which ends so: put "
                                 "them below one PCI switch or root, or try another device";

    _Static_assert(sizeof(name) == sizeof(((struct provider_caps *)0)->fabric), "a name's size");
    for (bool first = true; *text; text++) {
        if (*text != WORDS)
            add(out, text, 1);
        else if (first || strchr(text + 1, WORDS))
            add(out, name, sizeof(name) - 1);
        else
            add(out, advice, sizeof(advice) - 1);
        first = first && *text != WORDS;
    }
}

/* A literal, from behind its quote. Returns what is behind it. */
static const char *read_literal(const char *at, char *text)
{
    while (*at != '"') {
        if (*at == '\\') {
            add(text, at + 1, 1);
            at += 2;
        } else if (*at == '%') {
            /* A conversion that ends in PRIu64 or the like has its letter there. */
            at = at[1 + strspn(at + 1, "#0123456789.l")] == '"'
                     ? at + 1 + strspn(at + 1, "#0123456789.l")
                     : expand(at + 1, text);
        } else {
            add(text, at++, 1);
        }
    }
    return at + 1;
}

/* The longest of the literals among the arguments; literals next to each other are one. */
static void read_arguments(const char *at, char longest[LONGEST])
{
    char text[LONGEST] = "";

    for (int depth = 1; depth; at++) {
        if (*at == '"') {
            at = read_literal(at + 1, text) - 1;
        } else if (!strncmp(at, "PRI", 3)) {
            add(text, "18446744073709551615", 20);
            at += strspn(at, "PRIudx64") - 1;
        } else if (*at == ',' || *at == ')' || *at == '?' || *at == ':') {
            if (strlen(text) > strlen(longest))
                strcpy(longest, text);
            *text = '\0';
        }
        depth += (*at == '(') - (*at == ')');
    }
}

/* Is the parenthesis behind a name that has this in it? */
static bool is_behind(const char *paren, const char *file, const char *part)
{
    const char *name = paren;

    while (name > file && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
        name--;
    return memmem(name, (size_t)(paren - name), part, strlen(part));
}

static void read_file(const char *path)
{
    static char file[1 << 20];
    FILE *from = fopen(path, "re");
    bool exports = strstr(path, "export") || strstr(path, "virtual");

    assert_non_null(from);
    file[fread(file, 1, sizeof(file) - 1, from)] = '\0';
    fclose(from);
    for (const char *at = strchr(file, '('); at; at = strchr(at + 1, '(')) {
        char text[LONGEST] = "";
        bool refuses = is_behind(at, file, "refuse");

        if (!refuses && !is_behind(at, file, "fail"))
            continue;
        read_arguments(at + 1, text);
        if (!strchr(text, ' '))
            continue;
        assert_true(count < TEXTS);
        *sentences[count].text = '\0';
        expand_words(text, sentences[count].text);
        reasons += refuses || exports;
        sentences[count++].is_reason = refuses || exports;
    }
}

static void read_sources(void)
{
    char *const folders[] = {TEST_SOURCES "/core", TEST_SOURCES "/hmem", TEST_SOURCES "/providers",
                             NULL};
    FTS *tree = fts_open(folders, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    const FTSENT *entry;

    assert_non_null(tree);
    count = reasons = 0;
    while ((entry = fts_read(tree)))
        if (entry->fts_info == FTS_F && !strcmp(entry->fts_name + entry->fts_namelen - 2, ".c"))
            read_file(entry->fts_path);
    fts_close(tree);
    assert_true(count > 500 && reasons > 50);
}

/* ---- what arrives ----------------------------------------------------------------------- */

static void assert_whole(const char *text, const char *first, const char *sentence)
{
    size_t len = strlen(sentence), got = strlen(text);

    if (strncmp(text, first, strlen(first)))
        fail_msg("\"%s\" does not begin with \"%s\"", text, first);
    if (got < len || strcmp(text + got - len, sentence))
        fail_msg("\"%s\" does not end with \"%s\"", text, sentence);
}

/* ---- a fabric that refuses -------------------------------------------------------------- */

static const char *words; /* the sentence with which it does */

static struct {
    bool can, reg, reg_on_two; /* of these calls it refuses, or fails, the last but for one rail */
    bool fail;                 /* reg fails: not the path is refused */
    bool map_raw;
    unsigned regs;
} refuse;

static int refuse_path(struct hmreg_reason *why)
{
    return hmreg_refuse(why, -EOPNOTSUPP, "said", "%s", words);
}

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    return refuse.can ? refuse_path(why) : 0;
}

static int can_data_direct(void *self, struct hmreg_reason *why)
{
    return refuse_path(why);
}

static int reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    bool refused = refuse.reg_on_two ? ++refuse.regs > 1 : refuse.reg;

    if (refused && refuse.fail)
        return hmreg_fail(-EIO, "%s", words);
    if (refused)
        return refuse_path(why);
    *out = (struct hmreg_mr_keys){.key = req->requested_key};
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    return 0;
}

static int raw_key(void *self, const struct hmreg_mr_keys *mr, uint64_t *base, uint8_t *key,
                   size_t *size)
{
    *base = 0;
    if (*size)
        *key = 1;
    *size = 1;
    return 0;
}

static int map_raw(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key)
{
    *key = 1;
    return refuse.map_raw ? hmreg_fail(-EIO, "%s", words) : 0;
}

static int unmap_raw(void *self, uint64_t key)
{
    return 0;
}

static void ignore(void *self)
{
}

static const struct provider_ops ops = {.name = "refusing",
                                        .can = can,
                                        .can_data_direct = can_data_direct,
                                        .reg = reg,
                                        .dereg = dereg,
                                        .raw_key = raw_key,
                                        .map_raw = map_raw,
                                        .unmap_raw = unmap_raw,
                                        .destroy = ignore};

/* ---- its group -------------------------------------------------------------------------- */

#define FABRIC "a-fabric-with-a-name-of-63-bytes-------------------------------"
#define RAIL   "rail 1 (" FABRIC "): "

static struct {
    struct hmreg *lib;
    struct hmreg_domain *members[RAILS], *group;
    char *memory; /* of a device */
    char host[64];
} fixture;

static void close_fixture(void)
{
    assert_ok(hmreg_domain_close(fixture.group));
    for (int i = 0; i < RAILS; i++)
        assert_ok(hmreg_domain_close(fixture.members[i]));
    vendor_memory_free(fixture.memory);
    assert_ok(hmreg_close(fixture.lib));
}

static void open_fixture(uint32_t flags)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = flags};
    struct hmreg_domain_config member = {
        .size = sizeof(member),
        .order = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM},
        .ways = {HMREG_WAY_DATA_DIRECT_PCIE, HMREG_WAY_PLAIN},
    };
    static const struct provider_caps caps = {.fabric = FABRIC,
                                              .mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_RAW,
                                              .key_size = 8,
                                              .iov_limit = 8,
                                              .max_len = 1u << 30};

    read_sources();
    vendors_reset();
    memset(&refuse, 0, sizeof(refuse));
    words = "";
    test_after(close_fixture);
    assert_ok(hmreg_open(NULL, &fixture.lib));
    for (int i = 0; i < RAILS; i++)
        assert_ok(
            hmreg_domain_create(fixture.lib, &ops, &caps, &fixture, &member, &fixture.members[i]));
    assert_ok(hmreg_group_open(fixture.lib, fixture.members, RAILS, &config, &fixture.group));
    fixture.memory = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, BYTES);
}

static int reg_on(struct hmreg_domain *domain, void *addr, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(domain, addr, 64, HMREG_ACCESS_ALL, 0, 5, 0, mr, NULL);
}

static struct hmreg_explanation explain(const struct hmreg_mr *mr)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    assert_ok(hmreg_mr_explain(mr, &why));
    return why;
}

/* ---- cases ------------------------------------------------------------------------------ */

/* Places nest. */
TEST(fail_at__each_sentence_at_three_places__whole)
{
    read_sources();
    for (size_t i = 0; i < count; i++) {
        hmreg_fail(-EINVAL, "%s", sentences[i].text);
        assert_int_equal(hmreg_fail_at(-EINVAL, "rail %d (%s)", 63, FABRIC), -EINVAL);
        hmreg_fail_at(-EINVAL, "piece %zu of %zu", (size_t)1023, (size_t)1024);
        hmreg_fail_at(-EINVAL, "mrs[%zu]", SIZE_MAX);
        assert_whole(hmreg_last_error()->text,
                     "mrs[18446744073709551615]: piece 1023 of 1024: rail 63 (" FABRIC "): ",
                     sentences[i].text);
    }
}

TEST(domain_explain__each_reason_of_a_group__whole)
{
    open_fixture(0);
    refuse.can = true;
    for (size_t i = 0; i < count; i++) {
        struct hmreg_explanation why = {.size = sizeof(why)};

        if (!sentences[i].is_reason)
            continue;
        words = sentences[i].text;
        assert_ok(hmreg_domain_explain(fixture.group, HMREG_IFACE_CUDA, 0, &why));
        assert_int_equal(why.refused, 2);
        assert_whole(why.reasons[0].text, "rail 0 (" FABRIC "): ", words);
        assert_whole(why.reasons[1].text, "rail 0 (" FABRIC "): ", words);
    }
}

/* All ways and paths refuse, each with the sentence: the error has the last one. */
TEST(reg__each_reason_on_a_group__whole_in_error_and_explanation)
{
    open_fixture(0);
    refuse.reg = true;
    for (size_t i = 0; i < count; i++) {
        struct hmreg_explanation why;
        struct hmreg_mr *mr;

        if (!sentences[i].is_reason)
            continue;
        words = sentences[i].text;
        assert_int_equal(reg_on(fixture.group, fixture.memory, &mr), -EOPNOTSUPP);
        assert_whole(hmreg_last_error()->text, "rail 0 (" FABRIC "): no path to this cuda memory",
                     words);
        why = explain(NULL);
        assert_int_equal(why.refused, 3);
        assert_whole(why.reasons[0].text, "data-direct-pcie: ", words);
        assert_whole(why.reasons[1].text, "", words);
        assert_whole(why.reasons[2].text, "", words);
    }
}

/* The region has its reasons: of the way, and of the rail that it does without. */
TEST(reg__each_reason__whole_on_the_region)
{
    open_fixture(HMREG_GROUP_PARTIAL);
    refuse.reg_on_two = true;
    for (size_t i = 0; i < count; i++) {
        struct hmreg_explanation why;
        struct hmreg_mr *mr = NULL;

        if (!sentences[i].is_reason)
            continue;
        words = sentences[i].text;
        refuse.regs = 0;
        assert_ok(reg_on(fixture.group, fixture.memory, &mr));
        why = explain(mr);
        assert_int_equal(why.refused, 1);
        assert_whole(why.reasons[0].text, "rail 0 (" FABRIC "): data-direct-pcie: ", words);
        assert_null(hmreg_mr_rail(mr, 1));
        assert_whole(hmreg_last_error()->text, RAIL "no path to this cuda memory", words);
        assert_ok(hmreg_mr_close(mr));
    }
}

TEST(reg__each_error_of_a_rail__whole)
{
    open_fixture(HMREG_GROUP_PARTIAL);
    refuse.reg_on_two = refuse.fail = true;
    for (size_t i = 0; i < count; i++) {
        struct hmreg_mr *mr = NULL;

        words = sentences[i].text;
        refuse.regs = 0;
        assert_ok(reg_on(fixture.group, fixture.host, &mr));
        assert_null(hmreg_mr_rail(mr, 1));
        assert_whole(hmreg_last_error()->text, RAIL, words);
        assert_ok(hmreg_mr_close(mr));
    }
}

TEST(remote_open_rails__each_error__whole)
{
    struct hmreg_remote *remotes[RAILS];
    struct hmreg_mr *mr = NULL;
    uint8_t token[1024];
    size_t size = sizeof(token);

    open_fixture(0);
    assert_ok(reg_on(fixture.group, fixture.host, &mr));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    refuse.map_raw = true;
    for (size_t i = 0; i < count; i++) {
        words = sentences[i].text;
        assert_int_equal(hmreg_remote_open_rails(fixture.group, token, size, remotes, RAILS), -EIO);
        assert_whole(hmreg_last_error()->text, "rail 0: ", words);
    }
    assert_ok(hmreg_mr_close(mr));
}

TEST_MAIN()
