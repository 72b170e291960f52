#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: programs of the distribution over Soft-RoCE, unmodified. `programs.sh plain` runs them as
# they are; `programs.sh OPTION [PROGRAM...]` in `hmreg run` with that option: trace, gpu. There all,
# or the programs named, must do the same, and the reports must say what the kernel counted. What each
# process printed, its status, its report, and the kernel's figures stay in /run/unmodified/MODE.
. "$SOURCE_DIR/tests/package/cases.sh"
. "$SOURCE_DIR/tests/unmodified/kernel.sh"
mode=$1
chosen=" ${*:2} "
work=/run/unmodified/$mode
built=$BUILD_DIR/tests/unmodified
perftest=(ib_write_bw ib_read_bw ib_write_lat ib_atomic_bw ib_write_bw_4_qps ib_write_bw_mr_per_qp
    ibv_rc_pingpong ibv_ud_pingpong rping rdma_client ucmatose qperf fio)
others=(gloo ucx_tag ucx_put mpi fi_verbs fi_verbs_rxm fi_tcp)

# ---- how a program is run -----------------------------------------------------------------

# process NAME COMMAND...: one process; its output, status, number and report stay under the name.
process() {
    local file=$work/$1
    shift
    [[ $mode == plain ]] ||
        set -- "$BUILD_DIR/tools/hmreg" run "--$mode" --json --output "$file.json" -- "$@"
    "$@" >"$file.out" 2>"$file.err" &
    echo $! >"$file.pid"
    wait $!
    echo $? >"$file.status"
}

# cm:PORT: one of the connection manager's.
is_listening() { # PORT
    if [[ $1 == cm:* ]]; then
        rdma res show cm_id | grep -q "LISTEN .*:${1#cm:} "
    else
        tcp_is_listening "$1"
    fi
}

# Ends the side of fi_pingpong over verbs that waits for ever. Each side sends a last message after its
# results, and disconnects when that is acknowledged and the other's has arrived, without making sure that the
# other's is acknowledged too (pp_finalize()). If it is not yet, Soft-RoCE drops the acknowledgement, as the
# queue pair has left its state (rxe_xmit_packet()), and sends the other side's message again without end: it
# takes the retry count of 7 for that (rxe_completer()), and 7 are left of the 15 that libfabric asks for.
# Both ends are right, so it does not matter how long this waits.
end_last() { # PROGRAM SERVER CLIENT
    local side tries
    wait -n $2 $3
    for side in $2:server $3:client; do
        for tries in {1..300}; do
            kill -0 ${side%:*} 2>/dev/null || continue 2
            sleep 0.1
        done
        touch "$work/$1.${side#*:}.ended"
        kill "$(<"$work/$1.${side#*:}.pid")"
    done
}

# apart PROGRAM PORT COMMAND... -- COMMAND...: a server, and a client once it listens.
apart() {
    local program=$1 port=$2 command=() server client
    shift 2
    while [[ $1 != -- ]]; do
        command+=("$1")
        shift
    done
    shift
    process "$program.server" "${command[@]}" &
    server=$!
    until is_listening "$port" || ! kill -0 $server 2>/dev/null; do
        sleep 0.1
    done
    process "$program.client" "$@" &
    client=$!
    [[ $program != fi_verbs* ]] || end_last $program $server $client
    wait $server $client
}

# pair PROGRAM PORT COMMAND...: a server, and a client, whose command ends with the server's address.
pair() {
    apart "$@" -- "${@:3}" 10.0.0.1
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
# Of forks it would report each page of its pools to the kernel.
export UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=1 UCX_UD_ETH_DGID_CHECK=n UCX_TLS=rc_verbs,ud_verbs,self
export UCX_IB_FORK_INIT=n
# tests/rdma/CMakeLists.txt says why.
export FI_UNIVERSE_SIZE=8 FI_OFI_RXM_MSG_TX_SIZE=64 FI_OFI_RXM_MSG_RX_SIZE=64 FI_OFI_RXM_USE_SRX=1

# Its report, all of which are times, goes nowhere.
fio=(--output=/dev/null --name=blocks --ioengine=rdma --port=7200 --verb=write --bs=4k --size=64k)

run() { # PROGRAM
    local on_rxe0=(-d rxe0 -x 1 -F -n 5)
    case $1 in
    ib_write_bw) pair $1 18515 ib_write_bw "${on_rxe0[@]}" -s 8192 ;;
    ib_read_bw) pair $1 18515 ib_read_bw "${on_rxe0[@]}" -s 8192 ;;
    ib_write_lat) pair $1 18515 ib_write_lat "${on_rxe0[@]}" -s 64 ;;
    ib_atomic_bw) pair $1 18515 ib_atomic_bw "${on_rxe0[@]}" ;;
    ib_write_bw_4_qps) pair $1 18515 ib_write_bw "${on_rxe0[@]}" -s 4096 -q 4 ;;
    ib_write_bw_mr_per_qp) pair $1 18515 ib_write_bw "${on_rxe0[@]}" -s 4096 -q 4 --mr_per_qp ;;
    ibv_*_pingpong) pair $1 18515 $1 -d rxe0 -g 1 -n 5 ;;
    rping) apart $1 cm:7174 rping -s -a 10.0.0.1 -C 5 -V -v -- rping -c -a 10.0.0.1 -C 5 -V -v ;;
    rdma_client) apart $1 cm:7471 rdma_server -- rdma_client -s 10.0.0.1 ;;
    ucmatose) apart $1 cm:7174 ucmatose -p 7174 -C 5 -- ucmatose -p 7174 -C 5 -s 10.0.0.1 ;;
    qperf) apart $1 19765 qperf -- qperf -cm 1 -t 1 10.0.0.1 rc_rdma_write_bw quit ;;
    fio)
        apart $1 cm:7200 fio "${fio[@]}" --rw=read -- fio "${fio[@]}" --hostname=10.0.0.1 --rw=write
        ;;
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

is_chosen() { # PROGRAM
    [[ $chosen == '  ' || $chosen == *" $1 "* ]]
}

# What a program needs that is not here; nothing: all is.
lacks() { # PROGRAM
    local file package
    case $1 in
    ib_*) set -- ib_write_bw perftest ;;
    ibv_*) set -- $1 ibverbs-utils ;;
    rping | rdma_client | ucmatose) set -- $1 rdmacm-utils ;;
    qperf | fio) set -- $1 $1 ;;
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
        is_chosen $program && [[ ! $(lacks $program) ]] && run $program
    done
}

# ---- what is looked at ---------------------------------------------------------------------

# Output less what differs from run to run: addresses, keys, times, speeds, ports, the order of ranks.
steady='s/0x[0-9a-f]+/HEX/g; s/[0-9]+\.[0-9]+|-?\<(inf|nan)\>/FLOAT/g; s/:[0-9]+$/:PORT/; /r\^2/d
    s/^(Final: .*FLOAT) +[0-9]+ +[0-9]+$/\1 RATE RATE/; /^\[thread /d
    s/^( *bw +=).*/\1 RATE/; s/[ \t]+/ /g; s/ $//'

# Files of what is looked at: steady/ has that output, `differences` those from the plain run's, `totals`
# those of each report, `figures` the kernel's.
collect() {
    mkdir "$work/steady"
    cp "$work"/*.{out,err} "$work/steady"
    sed -s -i -E "$steady" "$work/steady"/*
    [[ ! -e $work/mpi.all.out ]] || sort -o "$work/steady/mpi.all.out" "$work/steady/mpi.all.out"
    kernel_counts "$work"
    awk '{ calls[FILENAME ~ /dereg$/ ? "dereg" : "reg"] += $1; bytes += $2 }
         END { print "reg", calls["reg"] + 0 "\ndereg", calls["dereg"] + 0 "\nbytes", bytes + 0 }' \
        "$work"/{reg,dereg} >"$work/figures"
    [[ $mode == plain ]] && return
    diff -ru "$plain/steady" "$work/steady" >"$work/differences"
    awk '/"totals"/ { inside = 1 } /}/ { inside = 0 }
         inside && NF == 2 && sub(",?$", "", $2) && $2 ~ /^[0-9]+$/ {
             file = FILENAME; sub(".*/", "", file); print file, substr($1, 2, length($1) - 3), $2
         }' "$work"/*.json >"$work/totals"
}

# The sum of a total over reports, or one of the kernel's figures: sum totals gloo. left, sum figures '' reg.
sum() { # FILE PREFIX NAME
    local sum=0 words
    while read -r -a words; do
        [[ ${words[0]} == "$2"* && ${words[-2]} == "$3" ]] && ((sum += words[-1]))
    done <"$work/$1"
    echo $sum
}

succeeded() { # PROGRAM [WORDS that each of its processes prints]
    local file bad=0
    for file in "$work/$1".*.status; do
        echo "${file##*/}: $(<"$file")"
        echo "$(<"${file%.status}.out")"
        echo "$(<"${file%.status}.err")"
        [[ $(<"$file") == 0 || -e ${file%.status}.ended ]] || bad=1
        [[ $(<"${file%.status}.out") == *"${2-}"* ]] || bad=1
    done
    ((!bad))
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
    echo "$(<"$work/reg")"
    [[ $(<"$work/reg")$'\n' == *" $name"$'\n'* ]]
}

same() { # PROGRAM: each process printed the same as without us
    echo "$(<"$work/differences")"
    [[ $(<"$work/differences") != *"/steady/$1."* ]]
}

reported() { # PROGRAM: each process that registers has a report, a job's with its rank
    local file
    for file in "$work/$1".*.status; do
        file=${file%.status}.json
        echo "$(<"$file")"
        (($(sum totals "${file##*/}" registrations) > 0)) || return
    done
    [[ $1 != mpi || $(<"$file") == *'"rank": "0"'* && $(<"$file") == *'"rank": "2"'* ]]
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
    ibv_*) words=' bytes in ' ;;
    gloo) words=' of 3: right' ;;
    mpi) words='rank 2 of 3: right' ;;
    fi_*) words='=5 ' ;;
    *) words='' ;;
    esac
    check "${1}__${mode}__succeeds" succeeded $1 "$words"
    check "${1}__${mode}__registers" registered $1
    [[ $mode == plain ]] && return
    check "${1}__${mode}__does_the_same" same $1
    [[ $1 == fi_tcp ]] || check "${1}__${mode}__is_reported" reported $1
}

# is SUM FIGURE: both in words, to be seen where they differ.
is() {
    echo "$(<"$work/totals")"
    echo "$(<"$work/reg")"
    echo "$(<"$work/dereg")"
    echo "$1 = $(($1)); the kernel: $2"
    (($1 == $2))
}

# Of all programs together, as some deregister on other threads than they register on.
judge_figures() {
    local total registrations deregistrations left failures bytes
    check kernel__${mode}__as_many_deregistered_as_registered \
        [ $(sum figures '' reg) == $(sum figures '' dereg) ]
    check kernel__${mode}__no_region_left [ "$(kernel_has mr)" == 'mr 0' ]
    check kernel__${mode}__no_message_lost [ "$(kernel_statistic retry_exceeded_err)" == "$errors" ]
    [[ $mode == plain ]] && return
    for total in registrations deregistrations left failures bytes; do
        declare $total=$(($(sum totals '' $total) - $(sum totals fi_tcp. $total)))
    done
    check reports__${mode}__registrations_as_the_kernel_counts \
        is "$registrations + $failures" $(sum figures '' reg)
    check reports__${mode}__deregistrations_as_the_kernel_counts \
        is "$deregistrations + $left" $(sum figures '' dereg)
    check reports__${mode}__bytes_as_the_kernel_counts is "$bytes" $(sum figures '' bytes)
}

# Has each been run without us, to be compared with?
plain_has_run() {
    local program
    for program in "${perftest[@]}" "${others[@]}"; do
        is_chosen $program && [[ ! $(lacks $program) ]] || continue
        compgen -G "$plain/$program.*.status" >/dev/null || return
    done
}

plain=/run/unmodified/plain
[[ $mode == plain ]] || plain_has_run || "$0" plain "${@:2}" >/dev/null
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
collect

for program in "${perftest[@]}" "${others[@]}"; do
    is_chosen $program && judge $program
done
judge_figures
finish
