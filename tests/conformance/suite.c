/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See suite.h.
 */
#include "tests/conformance/suite.h"

#include "tests/support/queries.h"
#include "tests/support/shm_names.h"

#define MAX_CASES 128

/* ---- the matrix ------------------------------------------------------------------------- */

enum status { PASSED, SUPPLIED, IMPOSSIBLE, NOT_APPLICABLE, STATUSES };

static const char *const names[] = {"passed", "supplied", "impossible", "n/a"};

/* A row of the matrix: in how many modes the case had which status, and the first reason. */
static struct row {
    const char *name;
    unsigned modes[STATUSES];
    char why[STATUSES][240];
    bool over;        /* all variants have run */
    unsigned variant; /* else the last variant tried */
    uint32_t mr_mode; /* ...and its mode */
} rows[MAX_CASES];
static unsigned row_count;

/* Of the current variant. */
static enum status status;
static char why[240];

/* The most severe status counts; reasons of one status are joined. */
static void note(enum status noted, const char *format, va_list args)
{
    size_t used = noted == status ? strlen(why) : 0;

    if (noted < status)
        return;
    status = noted;
    if (used)
        used += (size_t)snprintf(why + used, sizeof(why) - used, "; ");
    if (used < sizeof(why))
        vsnprintf(why + used, sizeof(why) - used, format, args);
}

void suite_supplied(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(SUPPLIED, format, args);
    va_end(args);
}

void suite_not_applicable(void)
{
    status = NOT_APPLICABLE;
}

void suite_impossible(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(IMPOSSIBLE, format, args);
    va_end(args);
}

/* The row's result: "supplied" if hmreg had to emulate in some mode, else the best of the others.
 */
static const char *verdict(const struct row *row)
{
    static const enum status order[] = {SUPPLIED, PASSED, IMPOSSIBLE, NOT_APPLICABLE};

    if (!row->over)
        return "FAILED";
    for (int i = 0; i < STATUSES; i++)
        if (row->modes[order[i]])
            return names[order[i]];
    return "not here";
}

/* MATRIX, case, fabric, status, reasons. */
static void print_row(const char *on, const struct row *row)
{
    unsigned total = row->modes[PASSED] + row->modes[SUPPLIED] + row->modes[IMPOSSIBLE];

    printf("MATRIX\t%s\t%s\t%s\t", row->name, on, verdict(row));
    if (!row->over)
        printf("failed in variant %u, mr_mode %#x", row->variant, row->mr_mode);
    for (int i = SUPPLIED; i <= IMPOSSIBLE && row->over; i++) {
        if (row->modes[i] && row->modes[i] < total)
            printf("%s in %u of %u modes: %s. ", names[i], row->modes[i], total, row->why[i]);
        else if (row->modes[i])
            printf("%s: %s. ", names[i], row->why[i]);
    }
    printf("\n");
}

/* ---- running ---------------------------------------------------------------------------- */

static struct suite_fabric fabric;

static void nothing(struct suite_fixture *fixture)
{
}

static void take_fabric(const char *name)
{
    fabric = *suite_fabric(name);
    fabric.progress = fabric.progress ? fabric.progress : nothing;
    fabric.settle = fabric.settle ? fabric.settle : nothing;
    fabric.recover = fabric.recover ? fabric.recover : nothing;
}

static unsigned char *pages(void)
{
    unsigned char *memory =
        mmap((void *)0x7ea000000000, SUITE_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* far from where the kernel places mappings */

    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(memory, 0, SUITE_BYTES);
    return memory;
}

static bool run_in(struct row *row, struct hmreg *lib, unsigned variant, suite_body *body)
{
    struct suite_fixture fixture = {
        .fabric = &fabric, .lib = lib, .info = {.size = sizeof(fixture.info)}};

    row->variant = variant;
    if (!fabric.open(&fixture, variant))
        return false;
    assert_ok(hmreg_domain_query(fixture.domain, &fixture.info));
    row->mr_mode = fixture.info.mr_mode;
    fixture.memory = pages();
    fixture.local = pages();
    status = PASSED;
    why[0] = '\0';
    body(&fixture);
    if (!row->modes[status]++)
        memcpy(row->why[status], why, sizeof(why));
    fabric.close(&fixture);
    munmap(fixture.memory, SUITE_BYTES);
    munmap(fixture.local, SUITE_BYTES);
    return true;
}

void suite_run(const char *name, suite_body *body)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM)};
    struct row *row = &rows[row_count++];
    struct hmreg *lib;
    unsigned ran = 0;

    assert_true(row_count <= MAX_CASES);
    row->name = name;
    assert_ok(hmreg_open(&config, &lib));
    for (unsigned i = 0; i < fabric.variants; i++)
        ran += run_in(row, lib, i, body);
    assert_ok(hmreg_close(lib));
    row->over = true;
    if (!ran)
        test_skip("this machine does not have %s", fabric.name);
}

int main(int argc, char **argv)
{
    int rc;

    shm_names_forget();
    take_fabric(argc > 1 ? argv[1] : "");
    rc = test_main(argc > 1 ? argc - 1 : argc, argv + (argc > 1));
    for (unsigned i = 0; i < row_count; i++)
        print_row(fabric.name, &rows[i]);
    return rc;
}

/* ---- regions ---------------------------------------------------------------------------- */

bool suite_has(const struct suite_fixture *fixture, uint32_t mode)
{
    return fixture->info.mr_mode & mode;
}

uint64_t suite_key(const struct suite_fixture *fixture, uint64_t key)
{
    return suite_has(fixture, HMREG_MR_PROV_KEY) ? 0 : key;
}

void suite_ready(struct suite_fixture *fixture, struct hmreg_domain *domain, struct hmreg_mr *mr)
{
    unsigned i = 0;

    if (!suite_has(fixture, HMREG_MR_ENDPOINT)) {
        assert_ok(hmreg_mr_enable(mr));
        return;
    }
    while (i < SUITE_OBJECTS && fixture->bound[i].mr)
        i++;
    assert_true(i < SUITE_OBJECTS);
    fixture->bound[i].ep = fixture->fabric->ep_open(domain);
    fixture->bound[i].mr = mr;
    assert_ok(hmreg_mr_bind(mr, fixture->bound[i].ep, 0));
    assert_ok(hmreg_mr_enable(mr));
}

struct hmreg_mr *suite_reg(struct suite_fixture *fixture, void *addr, size_t len, uint64_t access,
                           uint64_t key)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(
        hmreg_mr_reg(fixture->domain, addr, len, access, 0, suite_key(fixture, key), 0, &mr, NULL));
    suite_ready(fixture, fixture->domain, mr);
    return mr;
}

void suite_close(struct suite_fixture *fixture, struct hmreg_mr *mr)
{
    for (unsigned i = 0; i < SUITE_OBJECTS; i++)
        if (mr && fixture->bound[i].mr == mr) {
            fixture->fabric->ep_close(fixture->bound[i].ep);
            fixture->bound[i].mr = NULL;
        }
    assert_ok(hmreg_mr_close(mr));
}

void suite_end(struct suite_fixture *fixture, struct hmreg_remote *remote, struct hmreg_mr *mr)
{
    hmreg_remote_close(remote);
    suite_close(fixture, mr);
}

void suite_refused(struct suite_fixture *fixture, const char *what, const void *addr, size_t len,
                   uint64_t access, uint64_t offset, uint64_t key, uint64_t flags)
{
    if (fixture->fabric->native &&
        fixture->fabric->native(fixture, addr, len, access, offset, key, flags) == 0)
        suite_supplied("the fabric itself takes %s", what);
}

int suite_dmabuf(struct suite_fixture *fixture, size_t bytes, unsigned char **view)
{
    int fd = fixture->fabric->dmabuf ? fixture->fabric->dmabuf(bytes) : -1;

    if (fd < 0) {
        fd = memfd_create("hmreg-test", MFD_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    }
    *view = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(*view, MAP_FAILED);
    return fd;
}

struct hmreg_mr *suite_reg_dmabufs(struct suite_fixture *fixture,
                                   const struct hmreg_segment segments[2], uint64_t key, int fd,
                                   unsigned char *view, size_t bytes)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                             suite_key(fixture, key), 0, &mr, NULL);

    close(fd);
    if (rc) {
        assert_int_equal(rc, -EOPNOTSUPP);
        suite_impossible("no path to them: EOPNOTSUPP");
        munmap(view, bytes);
        return NULL;
    }
    return mr;
}

/* ---- RMA -------------------------------------------------------------------------------- */

struct hmreg_remote *suite_peer(struct suite_fixture *fixture, const struct hmreg_mr *mr)
{
    return test_remote_of(fixture->peer, mr);
}

int suite_rma(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write, uint64_t addr,
              uint64_t key, size_t len)
{
    struct hmreg_mr *local = NULL;
    int rc;

    assert_ok(hmreg_mr_reg(fixture->peer, fixture->local, len, HMREG_READ | HMREG_WRITE, 0, 0, 0,
                           &local, NULL));
    suite_ready(fixture, fixture->peer, local);
    rc = fixture->fabric->rma(fixture, remote, write, fixture->local, len, hmreg_mr_desc(local),
                              addr, key);
    suite_close(fixture, local);
    return rc;
}

int suite_move(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write,
               uint64_t offset, size_t len)
{
    uint64_t addr = 0, key = 0;
    int rc = hmreg_remote_addr(remote, offset, len, &addr, &key);

    return rc ? rc : suite_rma(fixture, remote, write, addr, key, len);
}

static unsigned char pattern(size_t index)
{
    static unsigned char seed = 1;

    return (unsigned char)(index ? seed + index * 7 : ++seed) | 1;
}

void suite_check_arrived(struct suite_fixture *fixture, const void *at, const void *expected,
                         size_t len)
{
    fixture->fabric->settle(fixture);
    assert_memory_equal(at, expected, len);
}

void suite_put(struct suite_fixture *fixture, struct hmreg_remote *remote, uint64_t offset,
               size_t len, const unsigned char *at)
{
    unsigned char before = at[-1], after = at[len];

    for (size_t i = 0; i < len; i++)
        fixture->local[i] = pattern(i);
    assert_ok(suite_move(fixture, remote, true, offset, len));
    suite_check_arrived(fixture, at, fixture->local, len);
    assert_int_equal(at[-1], before);
    assert_int_equal(at[len], after);
}

void suite_reach(struct suite_fixture *fixture, struct hmreg_mr *mr, uint64_t offset, size_t len,
                 const unsigned char *at)
{
    struct hmreg_remote *remote = suite_peer(fixture, mr);

    suite_put(fixture, remote, offset, len, at);
    suite_end(fixture, remote, mr);
}

void suite_get(struct suite_fixture *fixture, struct hmreg_remote *remote, uint64_t offset,
               size_t len, const unsigned char *at)
{
    memset(fixture->local, 0, len + 1);
    assert_ok(suite_move(fixture, remote, false, offset, len));
    assert_memory_equal(fixture->local, at, len);
    assert_int_equal(fixture->local[len], 0);
}

void suite_denied(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write,
                  uint64_t addr, uint64_t key, size_t len, int code)
{
    unsigned char *before = malloc(SUITE_BYTES);
    int rc;

    memset(fixture->local, 0xdb, len);
    memcpy(before, fixture->memory, SUITE_BYTES);
    fixture->expects_denial = true;
    rc = suite_rma(fixture, remote, write, addr, key, len);
    fixture->expects_denial = false;
    fixture->fabric->recover(fixture);
    assert_memory_equal(fixture->memory, before, SUITE_BYTES);
    for (size_t i = 0; i < len && !write; i++)
        assert_int_equal(fixture->local[i], 0xdb);
    free(before);
    suite_check_report(fixture, rc, code);
}

void suite_check_report(struct suite_fixture *fixture, int rc, int code)
{
    if (fixture->fabric->exact_errors)
        assert_int_equal(rc, code);
    else if (fixture->fabric->reports_denials)
        assert_int_not_equal(rc, 0);
    else
        suite_impossible("no byte moves, but the initiator gets no error: its operation %s",
                         rc ? "never ends" : "succeeds");
}

void suite_denied_at(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write,
                     int code)
{
    uint64_t addr = 0, key = 0;

    if (!write && fixture->fabric->free_reads) {
        suite_impossible("the device looks at no right when a peer reads");
        return;
    }
    assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
    suite_denied(fixture, remote, write, addr, key, 1, code);
}
