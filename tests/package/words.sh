#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The words of comments, messages, documents and names: the field's terms, and sentences with a named
# subject. Each line of `refused` is a regular expression for other words, and what to write instead.
# words.sh searches whole lines, code included.
. "$(dirname "$0")/cases.sh"
cd "$SOURCE_DIR" || exit 1

# Riddles: no named subject acts. Then private metaphors, with the standard term.
refused='
\b(nobody|somebody|anybody|anyone|someone|whoever|whom)\b => name the caller, thread or process
\bwho (has|have|had|must|can|comes|asks|wants|waits)\b => name the caller, thread or process
\b(has|have|had|is|are|was|were) told\b => X reports Y to Z; Z receives Y
\b(heard|dies)\b => X notices Y; X ends, is killed
\bis no (concern|business) of\b => does not affect
\b(come|comes) (to life|and go)\b => starts, ends
\bwhatever (comes|becomes|happens)\b => name the event
\bin vain\b => without need, without effect
\b(is|are|be) had\b => is available, is possible
\bhad (again|anew)\b => reused
\bwhat (is|are|was) to be\b => name the thing and who does it
\bwhat has to\b => name the thing that must
\b(that|which|value|code|descriptor) is none\b => an unknown code, an invalid descriptor
\bkept from\b => X prevents Y
\bcomes to know\b => X detects, X receives
\b(lest|whence|therein|wherein|thereof)\b => so that, from where, in it
\btakes? (it|its [a-z]+) along\b => carries
\bdone aside\b => out of line
\bgoes on by\b => advances by
\bsh(elf|elves)\b => stable array, array
\bpulses?\b => hit gate
\b(doubt|doubts|doubted)\b => pending
\bledgers?\b => cache stats, counters
\b(undertaker|graveyard|bury|buried|buries)\b => retire, reaper
\b(stir|stirs|stirred)\b => evict a batch
\blays? out\b => unpublish
\b(tortures?|torture test)\b => address reuse
crowd => concurrent threads, excess clients
\bbooks?\b => counters, list
\btroubles?\b => error, failure
\bdesks?\b => TLS view
\bguests? (of|in) the (house|process)\b => library
\bdoor\b => argument checks
\bwhich is (what|yours)\b => X does it; name the subject
'

# Other words for what the glossary of core/README.md or hmreg(7) names: not in what users read.
replaced='
\bzombies?\b => retired
\b(dead|dying|orphaned) (region|entry|entries|registration)s?\b => retired, invalidated
\bforgotten\b => invalidated, of regions whose memory changed; evicted, of those that made room
\bremember(ed|s)? ((a|an|the|its|each|every) )?(region|entry|entries|registration)s?\b => cached region, caches
\b(purge[ds]?|purging)\b => evict
\b(sub-?region|sub-?registration)s?\b => piece, of a composite; rail, of a region of a group
\b(sub-?domain|child domain)s?\b => member
\b(ref-?count|reference count)(s|ed)?\b => pins; the gets that hold a region
\b(un-?register)(s|ed|ing)?\b => deregister
'

# A comment that opens so leaves out its noun. `named`: folders without such comments; others follow.
opening='(/\*|//|#)[[:space:]*]+(Of|The same)\b'
named='include preload tools hmem providers kernel affinity bench core'

# FILE: the exact words that are right there, and why. FILE may be a pattern.
excepted='
*: user nobody => likewise
tests/gpu/ze/export.c: whence => the parameter of lseek(2)
tests/package/words.sh: => the lists and their tests
'

# Not the figures of a run: they quote the messages of the revision that was measured.
everything() {
    find core hmem kernel preload providers simulated tools include docs bench examples tests cmake debian README.md CONTRIBUTING.md run \
        -path docs/performance/figures.md -prune -o -type f -print
}

# Headers, the manual, and the command, whose texts are in its code.
users_texts() {
    find include docs/man tools -type f
}

# FILE:LINE:TEXT of each line that matches, less the exceptions.
matches() { # REGEX SOURCES
    local file words line
    $2 | xargs -d '\n' grep -niIE -e "$1" | while IFS= read -r line; do
        while IFS=: read -r file words; do
            words=${words% => *}
            [[ $file && ${line%%:*} == $file && $line == *"${words# }"* ]] && continue 2
        done <<<"$excepted"
        echo "$line"
    done
}

has_none_of() { # LIST SOURCES
    local line regex found bad=0
    local -n words=$1
    while IFS= read -r line; do
        [[ $line ]] || continue
        regex=${line% => *}
        found=$(matches "$regex" "$2")
        [[ ! $found ]] && continue
        echo "$found"
        echo "    instead of /$regex/: ${line#* => }"
        bad=1
    done <<<"$words"
    ((!bad))
}

# Tests of the list itself.
finds() { # LIST SENTENCE
    local regex
    local -n words=$1
    while IFS= read -r regex; do
        [[ $regex ]] && grep -qiE -e "${regex% => *}" <<<"$2" && return
    done <<<"$words"
    return 1
}

# FILE:WORDS of each header, page of the manual and file of the command in which "those of" stands for a noun, over two
# lines too.
texts_repeat_the_noun() {
    local found
    found=$(find include core preload docs/man tools \( -name '*.h' -o -path 'docs/man/*' -o -path 'tools/*' \) -type f \
        -exec grep -zoHiE '\bthose[[:space:]*]+of\b' {} + | tr '\0' '\n')
    printf '%s' "$found"
    [[ ! $found ]]
}

opens_without_its_noun() { # COMMENT
    grep -qzE -e "$opening" <<<"$1"
}

comments_open_with_their_noun() { # FOLDER...
    local found
    found=$(grep -rzoHE -e "$opening.{0,40}" --include='*.[ch]' --include='*.map' --include=CMakeLists.txt "$@" | tr '\0' '\n')
    printf '%s' "$found"
    [[ ! $found ]]
}

# A sentence of the manual that opens with "Of": the name of the call, or "for", says it.
page_opening='(^|^:   |^- |[.;:] )Of (\*\*|a |an |the )'
pages_open_with_their_noun() {
    ! grep -nE -e "$page_opening" docs/man/*.md
}

check words__of_a_riddle__are_found finds refused 'Who has been told all of it is told again.'
check words__that_are_a_metaphor__are_found finds refused 'struct ledger'
check words__inside_an_identifier__are_found finds refused 'drop_crowd(server);'
check words__of_a_plain_sentence__are_not fails '' finds refused 'The cache evicts one entry.'
check words__of_a_relative_clause__are_found finds refused 'It closes the queue, which is what to close.'
check words__that_the_glossary_replaced__are_found finds replaced 'The cache remembers each region.'
check words__of_the_glossary__are_not fails '' finds replaced 'The retired region was invalidated.'
check words__that_open_without_the_noun__are_found opens_without_its_noun $'/*\n * Of a region that ended. */'
check words__that_open_with_the_noun__are_not fails '' opens_without_its_noun '/* The region that ended. */'
check words__that_open_a_comment__name_the_noun comments_open_with_their_noun $named
check words__that_open_a_sentence__are_found grep -qE -e "$page_opening" <<<':   Of **hmreg_mem_free**(): the vendor does not know the memory.'
check words__that_open_a_sentence__name_the_noun pages_open_with_their_noun
check words__of_the_tree__say_who_does_what has_none_of refused everything
check words__that_users_read__are_the_glossarys has_none_of replaced users_texts
check words__of_texts__repeat_the_noun texts_repeat_the_noun
finish
