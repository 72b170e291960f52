/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See tree.h.
 */
#include "tests/tools/tree.h"

#include "tests/support/test.h"

#include <ftw.h>
#include <sys/stat.h>

static char root[64];

static void full(char path[512], const char *below)
{
    if (snprintf(path, 512, "%s%s", root, below) >= 512)
        fail_msg("%s is too long a name", below);
}

static void make_folders(char *path)
{
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        if (mkdir(path, 0755) && errno != EEXIST)
            fail_msg("mkdir %s: %s", path, strerror(errno));
        *at = '/';
    }
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

static void end(void)
{
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void tree_begin(void)
{
    const char *folder = getenv("TMPDIR");

    assert_in_range(snprintf(root, sizeof(root), "%s/hmreg-treeXXXXXX", folder ? folder : "/tmp"),
                    0, sizeof(root) - 1);
    assert_non_null(mkdtemp(root));
    test_setenv("HMREG_DOCTOR_ROOT", root);
    test_after(end);
}

void tree_bytes(const char *below, const void *bytes, size_t size)
{
    char path[512];
    FILE *file;

    full(path, below);
    make_folders(path);
    file = fopen(path, "w");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

void tree_file(const char *below, const char *text)
{
    tree_bytes(below, text, strlen(text));
}

void tree_link(const char *below, const char *target)
{
    char path[512];

    full(path, below);
    make_folders(path);
    assert_int_equal(symlink(target, path), 0);
}

void tree_folder(const char *below)
{
    char path[512];

    full(path, below);
    strcat(path, "/");
    make_folders(path);
}

void tree_remove(const char *below)
{
    char path[512];

    full(path, below);
    assert_int_equal(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- devices ---------------------------------------------------------------------------- */

void tree_pci(const char *path, const char *class, const char *vendor)
{
    const char *pci = strrchr(path, '/') + 1;
    char name[512], target[512];

    snprintf(name, sizeof(name), "/sys/devices/%s/class", path);
    tree_file(name, class);
    snprintf(name, sizeof(name), "/sys/devices/%s/vendor", path);
    tree_file(name, vendor);
    snprintf(name, sizeof(name), "/sys/devices/%s/numa_node", path);
    tree_file(name, "0\n");
    snprintf(name, sizeof(name), "/sys/bus/pci/devices/%s", pci);
    snprintf(target, sizeof(target), "../../../devices/%s", path);
    tree_link(name, target);
}

void tree_nic(const char *name, const char *pci_path)
{
    char path[256], text[256];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", name);
    snprintf(text, sizeof(text), "../../../devices/%s", pci_path);
    tree_link(path, text);
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/state", name);
    tree_file(path, "4: ACTIVE\n");
    snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/uverbs_%s/ibdev", name);
    tree_file(path, name);
    snprintf(path, sizeof(path), "/dev/infiniband/uverbs_%s", name);
    tree_file(path, "");
}
