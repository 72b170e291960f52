/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See dmabuf.h. A dmabuf reports its length through lseek, which has no file position to move. A
 * file that stands in for one is queried with fstat, since its owner may depend on its position.
 */
#include "hmem/dmabuf.h"

#include <sys/stat.h>
#include <unistd.h>

int64_t dmabuf_length(int fd)
{
    struct stat about = {0};
    off_t end;

    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        return about.st_size;
    end = lseek(fd, 0, SEEK_END);
    if (end >= 0)
        return end;
    return about.st_size ? about.st_size : -1;
}
