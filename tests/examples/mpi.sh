# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# For examples.sh and hosts.sh, in bash: how to start example 6's program for MPI. $examples: the examples' folder.

program=$examples/6-allreduce-mpi
# Where both MPIs are installed, mpiexec may be of the other one.
case $(ldd "$program" 2>/dev/null) in
*libmpich.so*) MPIEXEC=$(command -v mpiexec.mpich || echo "$MPIEXEC") is_mpich=1 ;;
*libmpi.so*) MPIEXEC=$(command -v mpiexec.openmpi || echo "$MPIEXEC") is_mpich= ;;
esac
# Settings of Open MPI for more processes than cores, and for root.
mpiexec=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
         PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "$MPIEXEC")

has_mpi() {
    [[ -x $program && -x $MPIEXEC ]]
}
