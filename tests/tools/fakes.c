/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The command on a vendor's simulated devices: VENDOR names the iface, FAKE_EXPORT a call of
 * exports and a code that it can fail with. */
#include "tests/tools/tool.h"

#include <hmreg/hmreg.h>

static const char *vendor(void)
{
    return getenv("VENDOR");
}

static json_t *device_at(const json_t *document, size_t index)
{
    return json_array_get(list_at(document, "devices"), index);
}

TEST(info__devices_are_simulated_and_have_pci_addresses)
{
    json_t *document = tool_document(0, "info", "--json");
    size_t count = json_array_size(list_at(document, "devices"));

    assert_true(count >= 2);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(words_at(device_at(document, i), "iface"), vendor());
        assert_true(json_is_true(json_object_get(device_at(document, i), "simulated")));
        assert_int_equal(strlen(words_at(device_at(document, i), "pci")), strlen("0000:00:00.0"));
    }
    assert_string_not_equal(words_at(device_at(document, 0), "pci"),
                            words_at(device_at(document, 1), "pci"));
}

/* Loopback imports no dmabuf but reaches device memory through the runtime. */
TEST(info__loopback_has_a_path_to_every_device)
{
    json_t *document = tool_document(0, "info", "--json");
    json_t *fabric = with(list_at(document, "fabrics"), "provider", "loopback");
    json_t *memory;
    size_t i;

    assert_true(json_array_size(list_at(fabric, "memory")) >= 3);
    json_array_foreach(list_at(fabric, "memory"), i, memory) {
        if (strcmp(words_at(memory, "iface"), vendor()))
            continue;
        assert_true(json_is_true(json_object_get(memory, "simulated")));
        assert_string_not_equal(words_at(memory, "best"), "none");
        assert_true(json_is_false(at(memory, "paths/dmabuf/usable")));
        assert_string_equal(words_at(memory, "paths/dmabuf/slug"), "fabric-imports-no-dmabuf");
    }
}

TEST(info__text_marks_what_is_simulated)
{
    struct tool tool = tool_run("info");
    char label[64];

    assert_int_equal(tool.status, 0);
    snprintf(label, sizeof(label), "%s 0-1, simulated  -       no [", vendor());
    assert_says(tool.out, label);
    assert_silent(tool.out, "hardware");
}

static void check_device_memory(const json_t *memory)
{
    const json_t *whole = with(list_at(memory, "ranges"), "part", "whole");
    const json_t *odd = with(list_at(memory, "ranges"), "part", "odd");
    const json_t *first = json_object_get(whole, "export"),
                 *second = json_object_get(odd, "export");
    uint64_t distance = strtoull(words_at(odd, "address"), NULL, 16) -
                        strtoull(words_at(whole, "address"), NULL, 16);

    assert_true(json_is_true(json_object_get(memory, "simulated")));
    assert_true(json_is_true(json_object_get(first, "done")));
    assert_true(json_is_true(json_object_get(second, "done")));
    assert_int_equal(number_at(second, "offset") - number_at(first, "offset"), distance);
    assert_true(json_is_false(at(odd, "found/cpu_access")));
    assert_string_equal(words_at(odd, "found/identity"), words_at(whole, "found/identity"));
}

TEST(query__device_memory_exports_whole_and_odd)
{
    json_t *document = tool_document(0, "query", "--json", "--kind", "device");
    json_t *memory;
    size_t i, seen = 0;

    json_array_foreach(list_at(document, "memory"), i, memory) {
        assert_string_equal(words_at(memory, "iface"), vendor());
        check_device_memory(memory);
        seen++;
    }
    assert_true(seen >= 2);
}

TEST(query__every_kind_of_every_device)
{
    json_t *document = tool_document(0, "query", "--json", "--iface", vendor());
    json_t *memory;
    size_t i, kinds[2][HMREG_MEM_MANAGED + 1] = {0};

    json_array_foreach(list_at(document, "memory"), i, memory) {
        size_t device = (size_t)number_at(memory, "device");

        for (int kind = 0; kind <= HMREG_MEM_MANAGED; kind++)
            if (device < 2 && !strcmp(words_at(memory, "kind"), hmreg_mem_kind_name(kind)))
                kinds[device][kind]++;
    }
    for (size_t device = 0; device < 2; device++) {
        assert_int_equal(kinds[device][HMREG_MEM_DEVICE], 1);
        assert_int_equal(kinds[device][HMREG_MEM_HOST_PINNED], 1);
    }
    assert_int_equal(json_array_size(list_at(document, "failures")), 0);
}

TEST(query__one_device__only_that)
{
    json_t *document = tool_document(0, "query", "--json", "--iface", vendor(), "--device", "1",
                                     "--kind", "device");
    json_t *list = list_at(document, "memory");

    assert_int_equal(json_array_size(list), 1);
    assert_int_equal(number_at(json_array_get(list, 0), "device"), 1);
}

/* Fails one call of a query; returns whether it was an export's, since some calls of a vendor serve
 * several operations. */
static bool fail_call(int which)
{
    char request[128];
    struct tool tool;
    bool is_export;

    snprintf(request, sizeof(request), "%s:%d:1", getenv("FAKE_EXPORT"), which);
    setenv("HMREG_FAKE_FAIL", request, 1);
    tool = tool_run("query", "--iface", vendor(), "--device", "0", "--kind", "device");
    unsetenv("HMREG_FAKE_FAIL");
    is_export = strstr(tool.out, " 0, device: its export was expected to succeed: ");
    if (is_export)
        assert_int_equal(tool.status, 1);
    return is_export;
}

TEST(query__export_that_fails__is_a_failure)
{
    int which = 0;

    while (!fail_call(which))
        assert_true(++which < 16);
}

/* Whatever NICs there are: the proof of the library's own path to each device succeeds. */
TEST(doctor__proves_the_library_on_every_device)
{
    struct tool tool = tool_run("doctor", "--json");
    json_t *document = tool_keep(json_loads(tool.out, 0, NULL)), *fabric, *memory;
    size_t i, proven = 0;

    assert_non_null(document);
    assert_string_equal(tool.err, "");
    fabric = with(list_at(document, "facts/fabrics"), "provider", "loopback");
    json_array_foreach(list_at(fabric, "memory"), i, memory) {
        const json_t *proof = json_object_get(memory, "proof");

        if (strcmp(words_at(proof, "result"), "proven"))
            fail_msg("%s: %s", words_at(memory, "iface"), words_at(proof, "text"));
        proven += !strcmp(words_at(memory, "iface"), vendor());
    }
    assert_int_equal(proven, 2);
}

TEST_MAIN()
