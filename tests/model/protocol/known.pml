/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of an answer that a thread keeps: a mapping is private memory without a file
 * (is_kept() in core/cache/notice.c, memhooks_is_quiet()). check.sh lets spin visit every state,
 * then breaks one rule at a time. In every state
 *
 *     no region of a file's page is cached: another process may change it without a call.
 *
 * There is a mapping of two pages. A thread gets its first page, from which it learns of both, and
 * the second one. Others change the second page: by calls that hooks hear (they unmap it, or map
 * memory or a file over it or into the hole), and by one that no hook hears, before which the
 * program calls hmreg_invalidate().
 *
 * Assumptions about the program:
 *
 *  - No thread gets the second page while a call is changing it (memhooks.c).
 *  - No thread gets any page of the mapping from a notice until the call that it is of has ended.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define END_LAST    1 /* known a stub counts the end of a call after the kernel's change */
#define QUIET       2 /* known an answer is kept only if no call was under way */
#define QUIET_FIRST 3 /* known ... from before the kernel was asked */
#define SINCE       4 /* known a call that begins ends the answer */
#define FILES_COUNT 5 /* known so does a call that maps a file, wherever it does */
#define NOTICE      6 /* known so does a notice */
#define keeps(rule) (BREAK != rule)

mtype = { ANONYMOUS, NOTHING, A_FILE };
mtype second = ANONYMOUS; /* the second page */
byte begun, ended;        /* calls that may change mappings */

bool known; /* the thread's answer is that both pages are anonymous... */
byte when;  /* ...if no call has begun since then */

/* For the assertions: calls under way that change the second page; the program's get, of it or of
 * any page, between its calls; processes that run. */
byte changing, running;
bool getting, getting_any, past;

/* ---- calls: the stubs in core/monitor/memhooks/hook_x86_64.c ---- */

proctype call() {
    mtype to;
    bool counts;

    atomic {
        !getting;
        changing++;
        if
        :: to = NOTHING
        :: to = A_FILE
        :: to = ANONYMOUS
        fi;
        counts = (to != A_FILE || keeps(FILES_COUNT))
    }
    begun = begun + counts;
    if :: keeps(END_LAST) :: else -> ended = ended + counts fi;
    second = to;
    if :: keeps(END_LAST) -> ended = ended + counts :: else fi;
    atomic { changing--; running-- }
}

/* monitor_notice(), then a call that no hook hears. */
proctype call_past() {
    atomic { !getting && !getting_any -> changing++; past = true }
    begun = begun + keeps(NOTICE);
    ended = ended + keeps(NOTICE);
    if
    :: second = NOTHING
    :: second = A_FILE
    fi;
    atomic { changing--; past = false; running-- }
}

/* ---- gets: core/cache/notice.c, core/monitor/memhooks/memhooks.c ---- */

inline ask_quiet() {
    saw = ended;
    at = begun;
    quiet = (saw == at || !keeps(QUIET))
}

inline ask() {
    answer = known && (begun == when || !keeps(SINCE));
    if
    :: answer
    :: else ->
        if :: keeps(QUIET_FIRST) -> ask_quiet() :: else fi;
        answer = (second == ANONYMOUS); /* the kernel's */
        if :: keeps(QUIET_FIRST) :: else -> ask_quiet() fi;
        if
        :: answer && quiet -> known = true; when = at
        :: else
        fi
    fi
}

proctype thread() {
    byte left = GETS, saw, at;
    bool answer, quiet;

    do
    :: left == 0 -> break
    :: else ->
        left--;
        if
        :: atomic { !past -> getting_any = true } /* the first page */
            ask()
        :: atomic { !changing -> getting = true }
            ask();
            assert(!answer || second != A_FILE)
        fi;
        atomic { getting = false; getting_any = false };
        atomic { answer = false; quiet = false; saw = 0; at = 0 }
    od;
    running--
}

init {
    atomic { running = 4; run thread(); run call(); run call(); run call_past() }
    timeout; /* no process can go on */
    assert(running == 0)
}
