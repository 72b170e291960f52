/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A process whose statistics page is what the bytes make of a good one: `hmreg stats` finds it,
 * reads it, and writes a document that is JSON, whatever the page says.
 */
#include "core/stats/stats_layout.h"
#include "tests/fuzz/targets/read_back.h"
#include "tests/fuzz/targets/target.h"
#include "tools/document.h"
#include "tools/stats/stats.h"
#include "tools/stats/stats_view.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct stats_layout good;

static void make_good(void)
{
    good.header = (struct stats_header){
        .magic = STATS_PAGE_MAGIC,
        .version = STATS_PAGE_VERSION,
        .size = sizeof(struct stats_layout),
        .pid = getpid(),
        .monitor = 1,
        .hmreg = "0.3.0",
    };
    good.domains[0] = (struct stats_domain){.number = 1, .provider = "ofi", .fabric = "tcp"};
    good.blocks[0] = (struct stats_block){.domain = 1, .device = -1, .counts = {1, 2, 3}};
    good.blocks[1] = (struct stats_block){.domain = 1, .iface = 1, .counts = {[5] = 9}};
    good.rows[0] = (struct stats_row){.block = 1, .hits = 1000};
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    make_good();
    return !freopen("/dev/null", "w", stdout);
}

static int make_page(struct input *input)
{
    uint8_t how = input_byte(input);
    size_t size = how & 1 ? (size_t)input_number(input, 3) % sizeof(good) : sizeof(good);
    int fd = memfd_create(STATS_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint8_t *page;

    PROMISED(fd >= 0 && !ftruncate(fd, sizeof(good)));
    page = mmap(NULL, sizeof(good), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    PROMISED(page != MAP_FAILED);
    memcpy(page, &good, sizeof(good));
    input_patch(input, page, sizeof(good));
    munmap(page, sizeof(good));
    PROMISED(!ftruncate(fd, (off_t)size));
    if (!(how & 2))
        PROMISED(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    return fd;
}

static void check_document(const json_t *document)
{
    must_read_back(document);
    stats_print_text(document);
}

static void check_view(const struct view *view)
{
    PROMISED(view->count <= STATS_BLOCKS);
    for (unsigned i = 0; i < view->count; i++)
        PROMISED(view->caches[i].domain < STATS_DOMAINS &&
                 (unsigned)view->caches[i].iface < HMREG_IFACE_COUNT &&
                 view->caches[i].device >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    static struct view view;
    json_t *document = doc_object();
    int fd = make_page(&input);
    char why[512] = "";

    if (view_read(fd, getpid(), INT64_MAX, &view, why) == VIEW_GOOD)
        check_view(&view);
    else
        PROMISED(why[0] && strlen(why) < 256);
    if (stats_find_one(document, getpid(), why))
        check_document(document);
    json_decref(document);
    close(fd);
    return 0;
}
