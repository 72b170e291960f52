/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library that starts Open MPI when it is loaded, with its UCX component, whose hooks replace
 * those that are in libc by then. Exits the process with 77 where Open MPI does not start.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* Open MPI's environment says what it does: a program alone, as root, whose messages go through
 * UCX. */
static const char *const settings[][2] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_pml", "ucx"},
    {"OMPI_MCA_pml_ucx_tls", "any"},
    {"OMPI_MCA_pml_ucx_devices", "any"},
    {"UCX_TLS", "self,posix"},
    {"UCX_MEM_EVENTS", "yes"},
};

__attribute__((constructor)) static void start_mpi(void)
{
    void *mpi = dlopen(TEST_OPENMPI, RTLD_NOW | RTLD_GLOBAL);
    int (*init)(int *, char ***) = NULL;

    if (mpi)
        *(void **)&init = dlsym(mpi, "MPI_Init");
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        setenv(settings[i][0], settings[i][1], 1);
    if (init && init(NULL, NULL) == 0)
        return;
    printf("Open MPI does not start\n");
    exit(77);
}
