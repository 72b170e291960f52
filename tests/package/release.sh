#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# packaging/release, with a key that ends with the test, and what who downloads a release does with it.
. "$(dirname "$0")/cases.sh"
cd "$SOURCE_DIR" || exit 1

for program in gpg perl git; do
    command -v $program >/dev/null && continue
    skip release "$program is not installed"
    finish
done

work=$(mktemp -d) # a short path: gpg-agent's socket is there
trap 'gpgconf --kill all; rm -rf "$work"' EXIT
export GNUPGHOME=$work/gpg HMREG_RELEASE_KEY=signer@test.invalid
mkdir -m 700 "$GNUPGHOME"
publisher='Those Who Publish <release@test.invalid>'
release=hmreg-$VERSION # check has a name of its own

makes_a_key() {
    gpg --batch --quiet --passphrase '' --quick-generate-key "Signer <$HMREG_RELEASE_KEY>" ed25519 sign 1d
}

makes() { # FOLDER
    HMREG_RELEASE_PUBLISHER=$publisher packaging/release --trial "$work/$1"
}

same_bytes_again() {
    local file
    makes again || return
    for file in "$release".{tar.gz,spdx,md} SHA256SUMS; do
        cmp "$work/made/$file" "$work/again/$file" || return
    done
}

verifies() { # FOLDER
    (cd "$work/$1" && gpg --batch --verify SHA256SUMS.asc SHA256SUMS && sha256sum --check --strict SHA256SUMS)
}

notices() { # FILE: with another byte
    rm -rf "$work/changed"
    cp -r "$work/made" "$work/changed"
    printf x >>"$work/changed/$1"
    ! verifies changed
}

unpacks() {
    tar -x -C "$work" -f "$work/made/$release.tar.gz"
}

# A repository of the unpacked sources, for refusals.
commits() {
    local git=(git -C "$work/$release" -c user.name=Signer -c user.email="$HMREG_RELEASE_KEY" -c commit.gpgsign=false)
    [[ -e $work/$release/.git ]] || "${git[@]}" init -q || return
    "${git[@]}" add -A && "${git[@]}" commit -qm 'The sources of a release'
}

refuses() { # WORDS
    fails "release: $1" "$work/$release/packaging/release" "$work/refused" && [[ ! -e $work/refused ]]
}

refuses_without_a_day() {
    sed -i "s/^## $VERSION, .*/## $VERSION, not released/" "$work/$release/CHANGELOG.md"
    commits && refuses 'CHANGELOG.md needs the day'
}

refuses_unreleased() {
    sed -i "s/^## $VERSION, .*/## $VERSION, 24 December 2026/" "$work/$release/CHANGELOG.md"
    sed -i '1s/).*/) UNRELEASED; urgency=medium/' "$work/$release/debian/changelog"
    commits && refuses 'debian/changelog needs a distribution'
}

refuses_the_placeholder() {
    sed -i '1s/UNRELEASED/unstable/' "$work/$release/debian/changelog"
    commits && HMREG_RELEASE_PUBLISHER='hmreg developers <hmreg@example.org>' refuses 'set who publishes'
}

refuses_what_is_not_committed() {
    echo >>"$work/$release/README.md"
    refuses 'commit all changes first'
}

# A release has the publisher's address where the tree has none that is real.
names_the_publisher() {
    grep -qxF "Maintainer: $publisher" "$work/$release/debian/control" &&
        [[ $(sed -n 's/^ -- \(.*>\)  .*/\1/p' "$work/$release/debian/changelog" | head -n 1) == "$publisher" ]] &&
        grep -qxF "PackageSupplier: Organization: ${publisher/ </ (}" <(sed 's/)$/>/' "$work/made/$release.spdx")
}

# Where who publishes is set, packaging/publisher has another.
placeholder_is_where_it_is_replaced() {
    diff <(printf '%s\n' debian/changelog debian/control packaging/release) \
        <(grep -rlF 'example.org' --exclude-dir=.git --exclude-dir='build*' . | sed 's|^\./||' |
            grep -vxE 'packaging/publisher|tests/package/release.sh' | LC_ALL=C sort)
}

# Each file, with its checksum, and the one of all.
bill_is_of_these_sources() {
    diff <(cd "$work/$release" && find . -type f -print0 | xargs -0 sha1sum | sort) \
        <(awk '/^FileName: / { file = substr($0, 11) } /^FileChecksum: / { print $3 "  " file }' \
            "$work/made/$release.spdx" | sort) &&
        grep -qx "PackageVerificationCode: $(awk '/^FileChecksum: / { print $3 }' "$work/made/$release.spdx" |
            sort | tr -d '\n' | sha1sum | cut -d ' ' -f 1)" "$work/made/$release.spdx" &&
        grep -qx "PackageChecksum: SHA256: $(sha256sum <"$work/made/$release.tar.gz" | cut -d ' ' -f 1)" \
            "$work/made/$release.spdx"
}

# What debian/copyright says of each folder, and here of each file.
bill_has_the_licences_of_the_files() {
    diff <(cd "$work/$release" && find kernel simulated/guest/kmod -type f ! -name hmreg_counter.h -printf './%p GPL-2.0-only\n' |
        LC_ALL=C sort) \
        <(awk '/^FileName: / { file = substr($0, 11) }
            /^LicenseConcluded: / && file && !/ BSD-2-Clause OR GPL-2.0-only$/ { print file, $2 }' \
            "$work/made/$release.spdx" | LC_ALL=C sort)
}

# What libhmreg needs of others, without a compiler's time for the rest.
builds() {
    "$CMAKE" -G Ninja -S "$work/$release" -B "$work/build" -DCMAKE_C_COMPILER="$CC" -DHMREG_DOCS=OFF -DHMREG_TESTS=OFF \
        -DHMREG_TOOLS=OFF -DHMREG_BENCH=OFF -DHMREG_EXAMPLES=OFF -DHMREG_SIMULATED=OFF -DHMREG_PRELOAD=OFF &&
        { [[ ! ${HMREG_TEST_LONG-} ]] || "$CMAKE" --build "$work/build"; }
}

check release__makes_a_key makes_a_key
check release__without_a_key__refused env -u HMREG_RELEASE_KEY bash -c '! packaging/release --trial 2>&1 | grep -v HMREG_RELEASE_KEY'
check release__trial__made makes made
check release__made_again__same_bytes same_bytes_again
check release__verifies verifies made
for file in $release.tar.gz $release.spdx $release.md SHA256SUMS; do
    check "release__other_${file#"$release".}__noticed" notices "$file"
done
check release__unpacks unpacks
check release__names_the_publisher names_the_publisher
check release__bill_of_materials__of_these_sources bill_is_of_these_sources
check release__bill_of_materials__licences_of_the_files bill_has_the_licences_of_the_files
check release__placeholder__where_it_is_replaced placeholder_is_where_it_is_replaced
check release__builds builds
check release__not_dated__refused refuses_without_a_day
check release__debians_changelog_unreleased__refused refuses_unreleased
check release__nobody_publishes__refused refuses_the_placeholder
check release__not_committed__refused refuses_what_is_not_committed
finish
