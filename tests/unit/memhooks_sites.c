/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Each place in this machine's libc and dynamic linker that enters the kernel to change mappings is
 * a hook site, or one of the exceptions below, each with the reason why nothing is missed. A newer
 * libc with another place fails here.
 */
#include "tests/support/test.h"

/* The sites themselves, which are compared with all of libc's code. */
#include "core/monitor/memhooks/hook_arch.h"
#include "core/monitor/memhooks/hook_sites.h"
#include "core/patch/stub.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

static const long numbers[] = {SYS_munmap, SYS_mmap,  SYS_mremap,         SYS_madvise,
                               SYS_brk,    SYS_shmat, SYS_process_madvise};

static struct {
    struct hook_sites sites;
    unsigned entries, missed;
    size_t places, looked_at; /* of all code */
} found;

static bool changes_mappings(long number)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i] == number)
            return true;
    return false;
}

/* The instruction that enters the kernel. */
static const uint8_t *kernel_entry(const struct syscall_site *site)
{
    return site->via ? site->via : CODE_BRANCH == 5 ? site->at + CODE_BRANCH : site->at;
}

static bool is_site(const uint8_t *entry)
{
    for (size_t i = 0; i < found.sites.count; i++)
        if (kernel_entry(&found.sites.site[i].is) == entry)
            return true;
    return false;
}

/* The dynamic linker's own heap only grows. */
static bool is_exception(const char *file, long number)
{
    return strstr(file, "/ld-linux") && number == SYS_brk;
}

static void look_at(const char *file, const struct syscall_site *site)
{
    Dl_info info = {.dli_sname = NULL};
    const char *function = "a function without a name";
    const uint8_t *at;

    if (!site->at || !changes_mappings(site->number))
        return;
    at = kernel_entry(site);
    found.entries++;
    if (dladdr(at, &info) && info.dli_sname)
        function = info.dli_sname;
    if (is_site(at) || is_exception(file, site->number))
        return;
    print_message("%s: %p, near %s: system call %ld is not hooked\n", file, (const void *)at,
                  function, site->number);
    found.missed++;
}

static void count_places(const struct syscall_code *code)
{
    found.places += code->size / SYSCALL_STEP;
    for (size_t at = syscall_candidate(code, 0); at < code->size;
         at = syscall_candidate(code, at + SYSCALL_STEP))
        found.looked_at++;
}

static int look_into(struct dl_phdr_info *file, size_t size, void *arg)
{
    if (!strstr(file->dlpi_name, "/libc.so") && !strstr(file->dlpi_name, "/ld-linux"))
        return 0;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[i];
        struct syscall_code code = {(uint8_t *)(file->dlpi_addr + segment->p_vaddr),
                                    segment->p_memsz, false};
        struct syscall_site entry;

        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        count_places(&code);
        for (size_t at = 0; at < segment->p_memsz; at += SYSCALL_STEP)
            if (syscall_is_at(&code, at, &entry)) {
                assert_int_equal(syscall_candidate(&code, at), at);
                look_at(file->dlpi_name, &entry);
            }
    }
    return 0;
}

TEST(sites_find__in_this_libc__every_entry_that_changes_mappings)
{
    int rc = hook_sites_find(&found.sites);

    if (rc == -EOPNOTSUPP && code_refusal())
        test_skip("%s", code_refusal());
    assert_ok(rc);
    dl_iterate_phdr(look_into, NULL);
    assert_int_equal(found.missed, 0);
    assert_in_range(found.entries, sizeof(numbers) / sizeof(numbers[0]), HOOK_SITES_MAX);
    print_message("%zu of %zu places were looked at\n", found.looked_at, found.places);
#if defined(__x86_64__) /* each file that is mapped with code makes the next get search the linker \
                         */
    assert_in_range(found.looked_at, 1, found.places / 8);
#endif
}

#if defined(__x86_64__)
/* UCX 1.23's libucm has such a jump, and no other bytes that look like `syscall`. */
TEST(enters__bytes_of_a_jumps_distance__only_if_the_jump_leads_elsewhere)
{
    static const uint8_t jump_if[] = {0x0f, 0x85, 0x0f, 0x05, 0x00, 0x00};
    static uint8_t text[0x600];
    struct syscall_code code = {text, sizeof(text), false};
    struct syscall_site entry;

    memcpy(text + 16, jump_if, sizeof(jump_if));
    assert_false(syscall_is_at(&code, 18, &entry));
    code.size = 0x500;
    assert_true(syscall_is_at(&code, 18, &entry));
    code.size = sizeof(text);
    text[16] = 0xb8;
    assert_true(syscall_is_at(&code, 18, &entry));
    assert_null(entry.at);
}

/* Room for the jump is behind the instructions with which libc's wrappers fail. */
TEST(enters__function_of_unknown_size__its_end_is_found)
{
    static const uint8_t fails[] = {0x83, 0xc8, 0xff, 0xc3};
    static uint8_t text[128] __attribute__((aligned(16)));
    struct syscall_code code = {text, sizeof(text), false};
    struct syscall_site entry;

    memset(text, 0x90, sizeof(text));
    memcpy(text + 2, (uint8_t[]){0x0f, 0x05}, 2);
    assert_true(syscall_is_at(&code, 2, &entry));
    assert_null(entry.at);
    memcpy(text + 80, fails, sizeof(fails)); /* too far away to be of the same function */
    assert_true(syscall_is_at(&code, 2, &entry));
    assert_null(entry.at);
    memcpy(text + 20, fails, sizeof(fails));
    assert_true(syscall_is_at(&code, 2, &entry));
    assert_ptr_equal(entry.via, text + 2);
    assert_ptr_equal(entry.at, text + 32 - CODE_BRANCH);
}

/* Another copy of the library has put its branch behind the function, and a short jump to it. */
TEST(enters__hooked_by_another_copy__its_branch_and_the_way_to_it)
{
    static uint8_t text[128] __attribute__((aligned(16)));
    struct stub_header header = {.magic = STUB_MAGIC, .number = SYS_munmap};
    struct syscall_code code = {text, 64, false};
    struct syscall_site site;

    memcpy(text + 64, &header, sizeof(header));
    assert_true(code_branch(text + 32, text + 32, text + 64 + sizeof(header)));
    assert_true(code_short_branch(text + 2, text + 2, text + 32));
    assert_true(syscall_is_at(&code, 2, &site));
    assert_ptr_equal(site.at, text + 32);
    assert_null(site.via);
    assert_ptr_equal(site.way, text + 2);
    assert_int_equal(site.number, SYS_munmap);
}
#endif

/* ---- a dynamic linker whose text is alone ----------------------------------------------- */

/* For the library the dynamic linker's text is here, if it is not NULL; of it the program has
 * neither the byte before nor the pages behind. */
static uint8_t *copy;
static ElfW(Phdr) segment;
static unsigned long long hidden; /* files of namespaces that the linker does not show */

struct look {
    int (*at)(struct dl_phdr_info *file, size_t size, void *arg);
    void *arg;
};

static bool is_linker(const struct dl_phdr_info *file)
{
    return file->dlpi_addr == getauxval(AT_BASE);
}

static int look_elsewhere(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct look *look = arg;
    struct dl_phdr_info changed = *file;

    changed.dlpi_adds += hidden;
    if (copy && is_linker(file)) {
        changed.dlpi_phdr = &segment;
        changed.dlpi_phnum = 1;
    }
    return look->at(&changed, size, look->arg);
}

int __real_dl_iterate_phdr(int (*look)(struct dl_phdr_info *file, size_t size, void *arg),
                           void *arg);
int __wrap_dl_iterate_phdr(int (*look)(struct dl_phdr_info *file, size_t size, void *arg),
                           void *arg);
int __wrap_dl_iterate_phdr(int (*look)(struct dl_phdr_info *file, size_t size, void *arg),
                           void *arg)
{
    struct look elsewhere = {look, arg};

    return copy || hidden ? __real_dl_iterate_phdr(look_elsewhere, &elsewhere)
                          : __real_dl_iterate_phdr(look, arg);
}

/* Finds the text; returns 1. */
static int find_text(struct dl_phdr_info *file, size_t size, void *arg)
{
    const uint8_t **text = arg;

    if (!is_linker(file))
        return 0;
    for (int i = 0; i < file->dlpi_phnum; i++)
        if (file->dlpi_phdr[i].p_type == PT_LOAD && file->dlpi_phdr[i].p_flags & PF_X)
            segment = file->dlpi_phdr[i];
    *text = (const uint8_t *)(file->dlpi_addr + segment.p_vaddr);
    return 1;
}

static void copy_text(const uint8_t *text)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t len = (segment.p_memsz + page - 1) / page * page;
    uint8_t *memory = mmap(NULL, len + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + page, len, PROT_READ | PROT_WRITE), 0);
    memcpy(memory + page, text, segment.p_memsz);
    segment.p_vaddr = (uintptr_t)memory + page - getauxval(AT_BASE);
    copy = memory + page;
}

static bool is_in(const uint8_t *at, const uint8_t *text)
{
    return at >= text && at < text + segment.p_memsz;
}

TEST(sites_find__linkers_text_alone__reads_nothing_beside_it)
{
    struct hook_sites there;
    const uint8_t *text = NULL;
    unsigned moved = 0;
    int rc = hook_sites_find(&found.sites);

    if (rc == -EOPNOTSUPP && code_refusal())
        test_skip("%s", code_refusal());
    assert_ok(rc);
    assert_int_equal(dl_iterate_phdr(find_text, &text), 1);
    copy_text(text);
    rc = hook_sites_find(&there);
    text = copy;
    copy = NULL;
    assert_ok(rc);
    assert_int_equal(there.count, found.sites.count);
    for (size_t i = 0; i < there.count; i++) {
        assert_true(is_site(kernel_entry(&there.site[i].is)) || is_in(there.site[i].is.at, text));
        moved += is_in(there.site[i].is.at, text);
    }
    assert_true(moved >= 1);
}

/* As before glibc 2.35, where another libc may be in another namespace. */
TEST(sites_find__files_in_a_hidden_namespace__refused)
{
    struct hook_sites there;
    int rc = hook_sites_find(&there);

    if (rc == -EOPNOTSUPP && code_refusal())
        test_skip("%s", code_refusal());
    assert_ok(rc);
    hidden = 2;
    rc = hook_sites_find(&there);
    hidden = 0;
    assert_int_equal(rc, -EOPNOTSUPP);
    assert_non_null(strstr(hmreg_last_error()->text, "namespace"));
}

#ifdef __x86_64__
TEST(begins_with_jump__each_form__its_target)
{
    static const struct {
        uint8_t bytes[17];
        size_t size;
    } forms[] = {
        {{0xe9, 0x00, 0x01, 0x00, 0x00}, 5},
        {{0x49, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0x41, 0xff, 0xe3}, 13}, /* by %r11: libfabric */
        {{0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xe0}, 12},       /* by %rax: UCX, far */
        {{0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0x0f, 0x05}, 0},
        {{0xb8, 0x0b, 0x00, 0x00, 0x00, 0x0f, 0x05}, 0},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t size;
        const uint8_t *to = code_leads_to(forms[i].bytes, sizeof(forms[i].bytes), &size);

        if (!forms[i].size) {
            assert_null(to);
            continue;
        }
        assert_int_equal(size, forms[i].size);
        assert_int_equal((uintptr_t)to, i ? 0x0807060504030201 : (uintptr_t)forms[i].bytes + 0x105);
        assert_null(code_leads_to(forms[i].bytes, size - 1, &size));
    }
}
#else
TEST(begins_with_jump__each_form__its_target)
{
    test_skip("the bytes are of x86-64");
}
#endif

TEST_MAIN()
