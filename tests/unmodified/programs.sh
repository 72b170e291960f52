#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: programs of the distribution over Soft-RoCE, unmodified. `programs.sh plain` runs them as
# they are. What each process printed, its status, and what the kernel counted stay in
# /run/unmodified/plain.
. "$SOURCE_DIR/tests/package/cases.sh"
. "$SOURCE_DIR/tests/unmodified/kernel.sh"
mode=$1
work=/run/unmodified/$mode
built=$BUILD_DIR/tests/unmodified
perftest=(ib_write_bw ib_read_bw ib_write_lat ib_atomic_bw ib_write_bw_4_qps ib_write_bw_mr_per_qp)
others=(gloo ucx_tag ucx_put mpi fi_verbs fi_verbs_rxm fi_tcp)

# ---- how a program is run -----------------------------------------------------------------

# process NAME COMMAND...: one process; its output, status and number stay under the name.
process() {
    local file=$work/$1
    shift
    timeout 100 sh -c 'echo $$ >"$0" && exec "$@"' "$file.pid" "$@" >"$file.out" 2>"$file.err"
    echo $? >"$file.status"
}

is_listening() { # PORT
    grep -Eq "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F:]+ 0A " /proc/net/tcp /proc/net/tcp6
}

# pair PROGRAM PORT COMMAND...: a server, and a client, whose command ends with the server's address.
pair() {
    local program=$1 port=$2 server
    shift 2
    process "$program.server" "$@" &
    server=$!
    until is_listening "$port" || ! kill -0 $server 2>/dev/null; do
        sleep 0.05
    done
    process "$program.client" "$@" 10.0.0.1
    wait $server
}

ranks() { # PROGRAM COMMAND...: three processes, which receive their number, 3, and a folder
    local program=$1 rank running=()
    shift
    mkdir "$work/$program.meet"
    for rank in 0 1 2; do
        process "$program.$rank" "$@" $rank 3 "$work/$program.meet" &
        running+=($!)
    done
    wait "${running[@]}"
}

# UCX makes its connections by datagrams, and drops Soft-RoCE's: the address that it looks for in them is
# elsewhere. Without that check they pass.
export UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=1 UCX_UD_ETH_DGID_CHECK=n UCX_TLS=rc_verbs,ud_verbs,self
# tests/rdma/CMakeLists.txt says why.
export FI_UNIVERSE_SIZE=8 FI_OFI_RXM_MSG_TX_SIZE=64 FI_OFI_RXM_MSG_RX_SIZE=64 FI_OFI_RXM_USE_SRX=1

run() { # PROGRAM
    local on_rxe0=(-d rxe0 -x 1 -F -n 5)
    case $1 in
    ib_write_bw) pair $1 18515 ib_write_bw "${on_rxe0[@]}" -s 8192 ;;
    ib_read_bw) pair $1 18515 ib_read_bw "${on_rxe0[@]}" -s 8192 ;;
    ib_write_lat) pair $1 18515 ib_write_lat "${on_rxe0[@]}" -s 64 ;;
    ib_atomic_bw) pair $1 18515 ib_atomic_bw "${on_rxe0[@]}" ;;
    ib_write_bw_4_qps) pair $1 18515 ib_write_bw "${on_rxe0[@]}" -s 4096 -q 4 ;;
    ib_write_bw_mr_per_qp) pair $1 18515 ib_write_bw "${on_rxe0[@]}" -s 4096 -q 4 --mr_per_qp ;;
    gloo) ranks $1 "$built/unmodified_gloo" ;;
    ucx_tag) pair $1 13337 ucx_perftest -n 10 -w 1 -t tag_bw -s 65536 ;;
    ucx_put)
        pair $1 13337 ucx_perftest -n 10 -w 1 -d rxe0:1 -x rc_verbs -t put_bw -D zcopy -s 4096
        ;;
    mpi) process $1.all mpiexec.mpich -n 3 "$built/unmodified_mpi" ;;
    fi_verbs) FI_PROVIDER=verbs pair $1 47592 fi_pingpong -p verbs -e msg -I 5 -c -S 4096 ;;
    fi_verbs_rxm)
        FI_PROVIDER=verbs,ofi_rxm pair $1 47592 fi_pingpong -p 'verbs;ofi_rxm' -e rdm -I 5 -c -S 65536
        ;;
    fi_tcp) FI_PROVIDER=tcp pair $1 47592 fi_pingpong -p tcp -e msg -I 5 -c -S 4096 ;;
    esac
}

# What a program needs that is not here; nothing: all is.
lacks() { # PROGRAM
    local file package
    case $1 in
    ib_*) set -- ib_write_bw perftest ;;
    gloo) set -- "$built/unmodified_gloo" libgloo-dev ;;
    ucx_*) set -- ucx_perftest ucx-utils ;;
    mpi) set -- mpiexec.mpich mpich "$built/unmodified_mpi" libmpich-dev ;;
    fi_*) set -- fi_pingpong libfabric-bin ;;
    esac
    while (($#)); do
        file=$1 package=$2
        shift 2
        command -v "$file" >/dev/null || echo "no ${file##*/}, of Debian's package $package"
    done
}

# Programs one after the other; perftest and the others at the same time, since each waits most of its time.
all() {
    local program
    for program; do
        [[ $(lacks $program) ]] || run $program
    done
}

# ---- what is looked at ---------------------------------------------------------------------

succeeded() { # PROGRAM [WORDS that each of its processes prints]
    local file bad=0
    tail -n 40 "$work/$1".*.{status,out,err}
    for file in "$work/$1".*.status; do
        [[ $(<"$file") == 0 ]] || bad=1
        [[ ! ${2-} ]] || grep -qF -- "$2" "${file%.status}.out" || bad=1
    done
    ((!bad))
}

judge() { # PROGRAM
    local words
    if [[ $(lacks $1) ]]; then
        # This guest skips nothing else.
        HMREG_TEST_NO_SKIP=0 skip "${1}__$mode" "$(lacks $1); as root: ./run setup guest, then build anew"
        return
    fi
    case $1 in
    ib_*) words=' #bytes' ;;
    gloo) words=' of 3: right' ;;
    mpi) words='rank 2 of 3: right' ;;
    fi_*) words='=5 ' ;;
    *) words='' ;;
    esac
    check "${1}__${mode}__succeeds" succeeded $1 "$words"
    check "${1}__${mode}__registers" registered $1
}

# Of all programs together, as some deregister on other threads than they register on.
calls() { # reg|dereg
    awk '{ calls += $3 } END { print calls }' "$work/$1"
}

deregistered() {
    cat "$work"/{reg,dereg}
    [[ $(calls reg) == "$(calls dereg)" ]]
}

registered() { # PROGRAM: it called the driver, or the test of it is worth nothing
    local name
    case $1 in
    ib_write_bw_*) name=ib_write_bw ;;
    ucx_*) name=ucx_perftest ;;
    fi_*) name=fi_pingpong ;;
    gloo | mpi) name=unmodified_$1 ;;
    *) name=$1 ;;
    esac
    cat "$work/reg"
    grep -q "^$name [0-9]" "$work/reg"
}

rm -rf "$work"
mkdir -p "$work/drivers"
# libibverbs loads each driver that is configured.
cp /etc/libibverbs.d/rxe.driver "$work/drivers" && mount --bind "$work/drivers" /etc/libibverbs.d || exit 1
kernel_starts_counting || exit 1
trap 'kernel_stops_counting; umount /etc/libibverbs.d' EXIT
errors=$(kernel_statistic retry_exceeded_err)
all "${perftest[@]}" &
all "${others[@]}"
wait
kernel_counts "$work"

for program in "${perftest[@]}" "${others[@]}"; do
    judge $program
done
check kernel__${mode}__as_many_deregistered_as_registered deregistered
check kernel__${mode}__no_region_left [ "$(kernel_has mr)" == 'mr 0' ]
check kernel__${mode}__no_message_lost [ "$(kernel_statistic retry_exceeded_err)" == "$errors" ]
finish
