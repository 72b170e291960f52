/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of memhooks that give way to userfaultfd (lose() in core/monitor/monitor.c):
 * a file was loaded whose calls only the kernel's events report. Two threads get memory; the first
 * that looks finds the file. check.sh lets spin visit every state, then breaks one rule at a time.
 * In every state
 *
 *     a get hits no region whose memory the file had changed before the get began.
 *
 * Assumptions: a section under the cache's lock, or the end of all regions, is one step. load.pml
 * models when a look finds the file; here a look that begins after the load does.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define LAST_ALL    1 /* lost all memory counts as changed after userfaultfd has taken over */
#define CACHE_FIRST 2 /* lost a region is in the cache before its memory is watched */
#define SHUT_LAST   3 /* lost the gate opens only when the other monitor has taken over */
#define keeps(rule) (BREAK != rule)

mtype = { FREE, REGISTERING, SERVING };
mtype state = FREE; /* of the region */
bool changed;       /* while it was registered */

mtype = { BY_HOOKS, BY_KERNEL };
mtype kind = BY_HOOKS; /* the monitor */
mtype watched;      /* by which the region's memory is watched; 0: none */
bool looking, lock; /* GATE_LOOKING; choose_lock */

/* For the assertions: changes of the memory; those before the region was made. */
byte memory, made;

inline end_region() {
    if
    :: state == SERVING -> state = FREE; watched = 0
    :: state == REGISTERING -> changed = true
    :: else
    fi
}

proctype a_file() {
    byte left = 2;

    looking = true;
    do
    :: left -> /* its call: the kernel reports it before it returns */
        atomic {
            left--;
            memory++;
            if :: watched == BY_KERNEL -> end_region() :: else fi
        }
    :: break
    od
}

inline lose() {
    atomic { !lock -> lock = true }
    if
    :: kind == BY_HOOKS ->
        atomic { end_region() }
        if :: keeps(SHUT_LAST) :: else -> looking = false fi;
        kind = BY_KERNEL;
        if :: keeps(LAST_ALL) -> atomic { end_region() } :: else fi
    :: else
    fi;
    lock = false
}

inline claim() {
    atomic {
        if
        :: state == FREE -> state = REGISTERING; changed = false; mine = true
        :: else
        fi
    }
}

proctype thread() {
    byte left = GETS, began;
    mtype by;
    bool mine;

    do
    :: left == 0 -> break
    :: else ->
        left--;
        began = memory;
        if
        :: looking -> lose(); looking = false
        :: else
        fi;
        if
        :: atomic { state == SERVING -> assert(made >= began) }
        :: else ->
            if :: keeps(CACHE_FIRST) -> claim() :: else -> mine = (state == FREE) fi;
            if
            :: mine ->
                by = kind;
                if
                :: keeps(CACHE_FIRST) -> watched = by
                :: else -> watched = by; mine = false; claim()
                fi
            :: else
            fi;
            if
            :: mine ->
                made = memory;
                atomic {
                    if
                    :: changed -> state = FREE; watched = 0
                    :: else -> state = SERVING
                    fi
                }
            :: else
            fi
        fi;
        atomic { mine = false; by = 0; began = 0 }
    od
}

init {
    atomic { run a_file(); run thread(); run thread() }
}
