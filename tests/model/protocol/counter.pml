/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of the kernel module hmreg_counter (kernel/counter/ranges.c) under a cache: two
 * changes of one range by the kernel, and a thread that enters a region of it in the cache, watches
 * it, pins its page, looks whether it was counted, unwatches it and begins again, while another
 * thread reads the ring. check.sh lets spin visit every state, then breaks one rule at a time. In
 * every state
 *
 *     a page that is pinned after the watch, and is not behind the address any more, was counted;
 *     once all counts are read, the region of such a page has ended.
 *
 * Assumptions: a section under the module's lock is one step. A thread that sees another page behind
 * the address also sees all stores that precede the change.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define PAGE_LAST   1 /* counter    the page goes after the start of the change has counted it */
#define LISTED      2 /* counter    a change is listed until its end */
#define WATCH_WAIT  3 /* counter    a watch waits until no listed change is of its range */
#define PIN_LAST    4 /* counter    pages are pinned after the watch */
#define ENTRY_FIRST 5 /* counter    the region is in the cache before the watch */
#define keeps(rule) (BREAK != rule)

byte page;                     /* behind the address */
byte listed, generation, slot; /* the module's: changes under way; its counts; the slot's */
bool watched;
byte read;           /* of the counts */
bool entered, ended; /* the region is in the cache; has ended */
byte pinned, seq, running;

inline count() { watched = false; slot++; generation++ }

proctype change() {
    atomic {
        listed = listed + keeps(LISTED);
        if :: watched && keeps(PAGE_LAST) -> count() :: else fi
    }
    page++;
    atomic {
        if :: watched && !keeps(PAGE_LAST) -> count() :: else fi;
        listed = listed - keeps(LISTED);
        running--
    }
}

proctype reader() {
end:
    do
    :: atomic { read < generation -> ended = ended || entered; read++ }
    od
}

proctype user() {
    byte times = 2;

    do
    :: times == 0 -> break
    :: else ->
        times--;
        if :: keeps(PIN_LAST) :: else -> pinned = page fi;
        atomic { entered = keeps(ENTRY_FIRST); ended = false }
        atomic { !keeps(WATCH_WAIT) || listed == 0; watched = true; seq = slot }
        if :: keeps(PIN_LAST) -> pinned = page :: else fi;
        entered = true;
        if /* a hit, at any time */
        :: atomic { page != pinned -> assert(slot != seq) }
        :: atomic { page != pinned && read == generation -> assert(ended) }
        :: true
        fi;
        atomic { entered = false; if :: watched -> watched = false; slot++ :: else fi }
    od;
    running--
}

init {
    atomic { running = 3; run change(); run change(); run user(); run reader() }
    timeout;
    assert(running == 0 && listed == 0 && read == generation)
}
