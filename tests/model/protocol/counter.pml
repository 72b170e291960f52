/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of the kernel module hmreg_counter (kernel/counter/ranges.c) and of the
 * library's table of slots (core/monitor/counter/counter.c): two changes of one range by the kernel,
 * and a thread that watches it, pins its page, looks whether it was counted, unwatches it and
 * begins again, while another thread reads the ring. check.sh lets spin visit every state, then
 * breaks one rule at a time. In every state
 *
 *     a page that is pinned after the watch, and is not behind the address any more, was counted;
 *     no region whose page is still there ends.
 *     At the end each count has ended the region that it is of.
 *
 * Assumptions: a section under the module's lock is one step, and so is one under the library's.
 * Who sees another page behind the address also sees all stores that precede the change.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define PAGE_LAST  1 /* counter    the page goes after the start of the change has counted it */
#define LISTED     2 /* counter    a change is listed until its end */
#define WATCH_WAIT 3 /* counter    a watch waits until no listed change is of its range */
#define PIN_LAST   4 /* counter    pages are pinned after the watch */
#define LOOK_AGAIN 5 /* counter    a slot is looked at again once it is in the table */
#define NOT_OLD    6 /* counter    a count from before the watch is not the new range's */
#define FROM_FIRST 7 /* counter    how many counts are old is read before the slot is looked at */
#define keeps(rule) (BREAK != rule)

byte page;                        /* behind the address */
byte listed, generation, slot;    /* the module's: changes under way; its counts; the slot's */
bool watched;
byte from, read;                  /* the library's table: the first count of the range; the ring's reader */
bool entered, ended;              /* the region has ended */
byte pinned, seq, running;
bool registered;                  /* the page is pinned, and the region's */

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

inline end_region() {
    assert(!registered || page != pinned || listed); /* the page goes soon, or has gone */
    ended = true
}

proctype reader() {
end:
    do
    :: atomic { read < generation ->
        if :: entered && (read >= from || !keeps(NOT_OLD)) -> end_region() :: else fi;
        read++ }
    od
}

#define is_counted (slot != seq || !watched)

proctype user() {
    byte times = 2, old;

    do
    :: times == 0 -> break
    :: else ->
        times--;
        if :: keeps(PIN_LAST) :: else -> pinned = page fi;
        atomic { !keeps(WATCH_WAIT) || listed == 0; watched = true; seq = slot; ended = false }
        if :: keeps(PIN_LAST) -> pinned = page :: else fi;
        if :: keeps(FROM_FIRST) -> old = generation :: else fi;
        if
        :: keeps(FROM_FIRST) ->
            atomic { entered = true; from = old; if :: slot != seq && keeps(LOOK_AGAIN) -> ended = true :: else fi }
        :: else ->
            atomic { if :: slot != seq -> ended = true :: else fi }
            old = generation;
            atomic { entered = true; from = old }
        fi;
        registered = true;
        if /* a hit, at any time */
        :: atomic { page != pinned -> assert(slot != seq) }
        :: true
        fi;
        if /* once all counts are read, the region has ended if its page is gone */
        :: atomic { read == generation && page != pinned -> assert(ended) }
        :: true
        fi;
        atomic { registered = false; entered = false; if :: watched -> watched = false; slot++ :: else fi }
    od;
    atomic { old = 0; running-- }
}

init {
    atomic { running = 3; run change(); run change(); run user(); run reader() }
    timeout;
    assert(running == 0 && listed == 0 && read == generation)
}
