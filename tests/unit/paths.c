/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * From memory to a registration: which paths are tried in which order, the provider's arguments,
 * and the clean-up after a refusal or failure. */
#include "core/base/error.h"
#include "core/base/mapping.h"
#include "tests/support/queries.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct script_fixture fixture;

/* ---- the order of paths ----------------------------------------------------------------- */

static const enum hmreg_path device_paths[] = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM,
                                               HMREG_PATH_MAPPED};

/* All paths refuse: the provider tried each path of the order, in that order, and each left its
 * reason. */
static void check_order(const enum hmreg_path *order)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct hmreg_explanation why = {.size = sizeof(why)};
    uint32_t count = 0;
    struct hmreg_mr *mr;

    for (; count < 3 && order[count]; count++)
        config.order[count] = order[count];
    script_open(&fixture, NULL, &config);
    for (int i = 0; i < 3; i++)
        script.refuse[device_paths[i]][0] = -EOPNOTSUPP;
    assert_reg_fails(script_reg(&fixture, fixture.memory[0], FIXTURE_BYTES, &mr), mr, -EOPNOTSUPP,
                     "refused");
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_int_equal(script.count, count);
    assert_int_equal(why.refused, count);
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.iface, HMREG_IFACE_CUDA);
    assert_int_equal(why.device, 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(script.calls[i].path, order[i]);
        assert_int_equal(why.reasons[i].path, order[i]);
        assert_int_equal(why.reasons[i].code, -EOPNOTSUPP);
        assert_int_equal(why.reasons[i].vendor_code, 4711);
        assert_string_equal(why.reasons[i].slug, "script-refused");
    }
    test_finish();
}

TEST(paths__every_order__is_followed)
{
    for (int first = 0; first < 3; first++) {
        check_order((enum hmreg_path[]){device_paths[first], 0});
        for (int second = 0; second < 3; second++)
            if (second != first)
                for (int third = 0; third < 2; third++)
                    check_order((enum hmreg_path[]){device_paths[first], device_paths[second],
                                                    third ? device_paths[3 - first - second]
                                                          : HMREG_PATH_NONE});
    }
}

TEST(paths__refused_before_and_by_registering__reasons_stay_with_the_region)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_error before;
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    script.can[HMREG_PATH_DMABUF][0] = -EPERM;
    script.refuse[HMREG_PATH_PEERMEM][0] = -EFAULT;
    assert_fails(hmreg_mr_query(NULL, NULL), -EINVAL, "mr");
    before = *hmreg_last_error();
    assert_ok(script_reg(&fixture, fixture.memory[0], FIXTURE_BYTES, &mr));
    assert_memory_equal(hmreg_last_error(), &before, sizeof(before));
    assert_ok(hmreg_mr_explain(mr, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_int_equal(why.refused, 2);
    assert_int_equal(why.reasons[0].path, HMREG_PATH_DMABUF);
    assert_int_equal(why.reasons[0].code, -EPERM);
    assert_string_equal(why.reasons[0].text, "script: no dmabuf on 0");
    assert_int_equal(why.reasons[1].path, HMREG_PATH_PEERMEM);
    assert_int_equal(why.reasons[1].code, -EFAULT);
    assert_ok(hmreg_mr_close(mr));
}

/* An error in the request is no refusal of a path: another path would not help. */
TEST(paths__error_that_is_no_refusal__ends_the_search)
{
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    script.refuse[HMREG_PATH_DMABUF][0] = -EOPNOTSUPP;
    script.fail[HMREG_PATH_PEERMEM] = -ENOMEM;
    assert_reg_fails(script_reg(&fixture, fixture.memory[0], FIXTURE_BYTES, &mr), mr, -ENOMEM,
                     "peermem failed");
    assert_string_equal(hmreg_last_error()->vendor_text, "in its own words");
    assert_int_equal(hmreg_last_error()->vendor_code, 4712);
    assert_int_equal(script.count, 2);
    script.fail[HMREG_PATH_PEERMEM] = 0;
    assert_ok(script_reg(&fixture, fixture.memory[0], FIXTURE_BYTES,
                         &mr)); /* and its key is free again */
    assert_ok(hmreg_mr_close(mr));
}

TEST(domain_explain__foresees_without_registering)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    script_open(&fixture, NULL, NULL);
    script.can[HMREG_PATH_DMABUF][1] = -EPERM;
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_DMABUF);
    assert_int_equal(why.refused, 0);
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 1, &why));
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_int_equal(why.refused, 1);
    assert_int_equal(why.reasons[0].code, -EPERM);
    vendors[HMREG_IFACE_CUDA].dmabuf = false;
    script.can[HMREG_PATH_PEERMEM][0] = -ENOSYS;
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.refused, 3);
    assert_string_equal(why.reasons[0].slug, "no-dmabuf-export");
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_SYSTEM, -1, &why));
    assert_int_equal(why.path, HMREG_PATH_SYSTEM);
    assert_int_equal(why.device, -1);
    assert_fails(hmreg_domain_explain(fixture.domain, HMREG_IFACE_SYSTEM, 1, &why), -ENODEV,
                 "device");
    assert_fails(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 2, &why), -ENODEV,
                 "device 2");
    assert_fails(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, -1, &why), -ENODEV,
                 "device");
    assert_int_equal(script.count, 0);
}

TEST_FIRST(explain__nothing_was_refused__enoent)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    pid_t child = fork();

    if (child == 0) /* without earlier tests' refusals */
        _exit(hmreg_mr_explain(NULL, &why) == -ENOENT ? 0 : 1);
    test_await(child);
}

/* ---- the provider's requests ------------------------------------------------------------ */

TEST(dmabuf__names_the_bytes_and_is_closed_after)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;
    int before;

    script_open(&fixture, NULL, NULL);
    vendor_view(fixture.memory[1])[65537] = '!';
    before = test_count_fds();
    assert_ok(script_reg(&fixture, fixture.memory[1] + 65537, 1000, &mr));
    assert_int_equal(test_count_fds(), before);
    assert_int_equal(script_last()->path, HMREG_PATH_DMABUF);
    assert_int_equal(script_last()->first, '!');
    assert_int_equal(script_last()->dmabuf.length, 1000);
    assert_ptr_equal(script_last()->iov[0].iov_base, fixture.memory[1] + 65537);
    assert_int_equal(script_last()->iface, HMREG_IFACE_CUDA);
    assert_int_equal(script_last()->device, 1);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.path, HMREG_PATH_DMABUF);
    assert_int_equal(info.addr, (uintptr_t)fixture.memory[1] + 65537);
    assert_int_equal(info.local_addr, info.addr);
    assert_int_equal(info.identity, vendors[HMREG_IFACE_CUDA].claims[1].range.identity);
    assert_ok(hmreg_mr_close(mr));
}

/* Closes the child's standard input, so that descriptor 0 is free. */
static int check_descriptor_0(void)
{
    struct hmreg_mr *mr;
    int fd;

    close(0);
    if (hmreg_mr_reg(fixture.domain, fixture.memory[0], FIXTURE_BYTES, HMREG_SEND, 0, 0, 0, &mr,
                     NULL))
        return 1;
    if (script_last()->dmabuf.fd != 0)
        return 2;
    if (fcntl(0, F_GETFD) != -1)
        return 3; /* not closed after the call */
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd != 0)
        return 4;
    if (hmreg_mr_close(mr) || fcntl(0, F_GETFD) == -1)
        return 5; /* closed a second time */
    script.can[HMREG_PATH_DMABUF][0] = script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
    close(0);
    if (hmreg_mr_reg(fixture.domain, fixture.memory[0], FIXTURE_BYTES, HMREG_SEND, 0, 0, 0, &mr,
                     NULL))
        return 6;
    if (script_last()->path != HMREG_PATH_MAPPED || fcntl(0, F_GETFD) != -1)
        return 7;
    return hmreg_mr_close(mr) ? 8 : 0;
}

TEST_FIRST(dmabuf__descriptor_0__is_one_like_any_other)
{
    pid_t child = fork();

    if (child == 0) {
        script_open(&fixture, NULL, NULL);
        _exit(check_descriptor_0());
    }
    test_await(child);
}

static bool is_mapped(const void *addr)
{
    unsigned char resident;
    uintptr_t page = (uintptr_t)addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

    return mincore((void *)page, 1, &resident) == 0;
}

static bool is_mapped_in_a_child(const void *addr)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (!child)
        _exit(is_mapped(addr));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(mapped__provider_sees_the_bytes_until_close)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    script.can[HMREG_PATH_DMABUF][0] = script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
    vendor_view(fixture.memory[0])[65539] = '?';
    assert_ok(script_reg(&fixture, fixture.memory[0] + 65539, 4096, &mr));
    assert_int_equal(script_last()->first, '?');
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.path, HMREG_PATH_MAPPED);
    assert_int_equal(info.addr, (uintptr_t)fixture.memory[0] + 65539);
    assert_int_equal(info.local_addr, (uintptr_t)script_last()->iov[0].iov_base);
    *(char *)(uintptr_t)info.local_addr = 'w';
    assert_int_equal(vendor_view(fixture.memory[0])[65539], 'w');
    assert_false(is_mapped_in_a_child((void *)(uintptr_t)info.local_addr));
    assert_ok(hmreg_mr_close(mr));
    assert_false(is_mapped((void *)(uintptr_t)info.local_addr));
}

/* The script notes a call before it refuses. The region has another path, and no mapping. */
TEST(mapped__fabric_refuses__is_mapped_no_more)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .order = {HMREG_PATH_MAPPED, HMREG_PATH_PEERMEM}};
    struct hmreg_mr *mr = NULL;

    script_open(&fixture, NULL, &config);
    script.refuse[HMREG_PATH_MAPPED][0] = -EIO;
    assert_ok(script_reg(&fixture, fixture.memory[0] + 65539, 4096, &mr));
    assert_int_equal(script.count, 2);
    assert_int_equal(script.calls[1].path, HMREG_PATH_PEERMEM);
    assert_false(is_mapped(script.calls[0].iov[0].iov_base));
    assert_ok(hmreg_mr_close(mr));
}

TEST(export__fails__is_a_refusal_with_the_vendors_words)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    vendors[HMREG_IFACE_CUDA].export_code = -EXDEV;
    assert_ok(script_reg(&fixture, fixture.memory[0], FIXTURE_BYTES, &mr));
    assert_ok(hmreg_mr_explain(mr, &why));
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_int_equal(why.reasons[0].code, -EXDEV);
    assert_int_equal(why.reasons[0].vendor_code, 999);
    assert_string_equal(why.reasons[0].text, "export of cuda failed");
    assert_ok(hmreg_mr_close(mr));
}

TEST(request__reaches_the_provider_as_it_was)
{
    static char host[64];
    struct iovec iov = {host + 3, 17};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr),
        .iov = &iov,
        .iov_count = 1,
        .access = HMREG_REMOTE_READ | HMREG_RECV,
        .requested_key = 0x123456789a,
        .context = &iov,
    };
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    assert_int_equal(script_last()->path, HMREG_PATH_SYSTEM);
    assert_int_equal(script_last()->count, 1);
    assert_ptr_equal(script_last()->iov[0].iov_base, host + 3);
    assert_int_equal(script_last()->iov[0].iov_len, 17);
    assert_int_equal(script_last()->access, HMREG_REMOTE_READ | HMREG_RECV);
    assert_int_equal(script_last()->requested_key, 0x123456789a);
    assert_int_equal(script_last()->iface, HMREG_IFACE_SYSTEM);
    assert_int_equal(script_last()->device, -1);
    assert_int_equal(script_last()->dmabuf.fd, -1);
    assert_ptr_equal(script_last()->context, &iov);
    assert_ptr_equal(hmreg_mr_context(mr), &iov);
    assert_ok(hmreg_mr_close(mr));
}

TEST(managed_memory__follows_only_the_cpu)
{
    struct hmreg_mr *mr;
    char *managed;

    script_open(&fixture, NULL, NULL);
    managed = vendor_memory(HMREG_IFACE_ZE, 1, HMREG_MEM_MANAGED, 4096);
    managed[5] = 'm';
    assert_ok(script_reg(&fixture, managed + 5, 10, &mr));
    assert_int_equal(script_last()->path, HMREG_PATH_SYSTEM);
    assert_int_equal(script_last()->first, 'm');
    assert_ok(hmreg_mr_close(mr));
    script.can[HMREG_PATH_MAPPED][1] = -EOPNOTSUPP;
    assert_reg_fails(script_reg(&fixture, managed, 10, &mr), mr, -EOPNOTSUPP,
                     "managed memory moves");
    assert_string_equal(test_why_of(NULL).reasons[0].slug, "managed-memory-migrates");
    vendor_memory_free(managed);
}

/* As a dmabuf whose exporter has no mmap. */
TEST(mapping__file_that_cannot_be_mapped__eopnotsupp)
{
    struct hmreg_reason why = {.code = 0};
    struct mapping mapping;
    struct hmreg_dmabuf dmabuf = {.fd = eventfd(0, EFD_CLOEXEC), .length = 4096};

    assert_true(dmabuf.fd >= 0);
    assert_int_equal(mapping_open(&dmabuf, &mapping, &why), -EOPNOTSUPP);
    assert_string_equal(why.text,
                        "the dmabuf cannot be mapped for the CPU: Operation not supported");
    close(dmabuf.fd);
}

TEST(mapping__range_within_a_page__maps_that_page)
{
    struct hmreg_reason why = {.code = 0};
    struct mapping mapping;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct hmreg_dmabuf dmabuf = {
        .fd = memfd_create("dmabuf", MFD_CLOEXEC), .offset = page + 10, .length = 20};

    assert_true(dmabuf.fd >= 0);
    assert_int_equal(ftruncate(dmabuf.fd, (off_t)(4 * page)), 0);
    assert_ok(mapping_open(&dmabuf, &mapping, &why));
    assert_int_equal(mapping.len, page);
    assert_int_equal(mapping.addr, (uintptr_t)mapping.base + 10);
    mapping_close(&mapping);
    close(dmabuf.fd);
}

/* Those that fork come first: a child opens no runtime that its parent has used. */
TEST_MAIN()
