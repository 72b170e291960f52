/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The command on a vendor's simulated devices: VENDOR names the iface. */
#include "tests/tools/tool.h"

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
