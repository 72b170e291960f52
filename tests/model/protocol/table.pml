/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model for spin(1) of an entry of a key table that is replaced while it is read (<hmreg/table.h>):
 * a writer, which replaces it twice, and a reader. check.sh lets spin visit every state, then breaks
 * one rule at a time. In every state
 *
 *     what a reader accepts was written by one write;
 *     what a reader accepts after a write has ended is not what was there before it;
 *     a reader does not wait: it accepts the entry or says that it changes.
 *
 * Each step of the writer is visible before its next one begins, and so is each of the reader's
 * complete; within a step words are stored and loaded in any order: a copy to a device, and loads
 * without an order between them.
 */

/* Each rule, and the scene in which -DBREAK=RULE must be an error. */
#define ODD_FIRST  1 /* table      the sequence is odd before another word changes */
#define EVEN_LAST  2 /* table      ... and until all have changed */
#define NEW_EVEN   3 /* table      an entry never has the same even sequence again */
#define ODD        4 /* table      a reader accepts no odd sequence */
#define LOAD_TWICE 5 /* table      ... and none that differs after it has loaded the rest */
#define LOAD_FIRST 6 /* table      ... nor loads the rest before the sequence */
#define keeps(rule) (BREAK != rule)

byte sequence, base, key; /* base and key of write n are n */
byte ended;               /* writes that have */

/* One copy of all words. */
inline store(n, to) {
    if
    :: sequence = to; base = n; key = n
    :: base = n; sequence = to; key = n
    :: base = n; key = n; sequence = to
    :: sequence = to; key = n; base = n
    :: key = n; sequence = to; base = n
    :: key = n; base = n; sequence = to
    fi
}

inline write(n) {
    even = (keeps(NEW_EVEN) -> 2 * n : 2 * (n & 1));
    if
    :: keeps(ODD_FIRST) -> sequence = even - 1
    :: else
    fi;
    if
    :: keeps(EVEN_LAST) -> store(n, even - 1); sequence = even
    :: else -> store(n, even)
    fi;
    ended = n
}

inline load_values() {
    if
    :: b = base; k = key
    :: k = key; b = base
    fi
}

proctype writer() {
    byte even;

    write(1);
    write(2)
}

proctype reader() {
    byte before, first, second, b, k;

    before = ended;
    if
    :: keeps(LOAD_FIRST) -> first = sequence; load_values()
    :: else -> load_values(); first = sequence
    fi;
    second = sequence;
    if
    :: (!(first & 1) || !keeps(ODD)) && (first == second || !keeps(LOAD_TWICE)) ->
        assert(b == k && b >= before)
    :: else
    fi
}

init {
    atomic { run writer(); run reader() }
}
