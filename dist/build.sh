# SPDX-License-Identifier: Apache-2.0
# What ./quickstart and ./check share: packages and builds. Sourced by bash in the top directory.

BUILD_PACKAGES=(gcc libc6-dev make autoconf automake pkg-config protobuf-c-compiler libprotobuf-c-dev libuv1-dev
	libsqlite3-dev libcurl4-openssl-dev libexpat1-dev libssl-dev libisal-dev zlib1g-dev libsnappy-dev
	libnghttp2-dev liblz4-dev libzstd-dev uthash-dev python3 curl ca-certificates)
TEST_PACKAGES=(libcmocka-dev python3 openssl strace binutils procps mandoc universal-ctags
	util-linux nghttp2-client python3-h2 kcat python3-kafka python3-snappy python3-lz4 python3-zstandard python3-venv)

# For make s3-matrix: Ceph's S3 gateway, and what installs the others.
S3_PACKAGES=(ceph-mon ceph-osd radosgw python3-venv)

# For fuzzing, coverage and benches, beside the tests.
CAMPAIGN_PACKAGES=(clang libclang-rt-14-dev wrk gcovr librdkafka-dev)

is_installed() {
	[ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = "install ok installed" ]
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	elif command -v sudo >/dev/null; then
		sudo env DEBIAN_FRONTEND=noninteractive "$@"
	else
		echo "not root and no sudo: run as root: $*" >&2
		return 1
	fi
}

# install_missing PACKAGE...
install_missing() {
	local missing=() p
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		echo "this is no Debian; these packages, or what they are called here, must be there: $*" >&2
		return 0
	fi
	for p; do
		is_installed "$p" || missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "installing: ${missing[*]}"
	as_root apt-get install -y -q --no-install-recommends "${missing[@]}" >build/apt.log 2>&1 && return 0
	as_root apt-get update -q >build/apt.log 2>&1 &&
		as_root apt-get install -y -q --no-install-recommends "${missing[@]}" >>build/apt.log 2>&1 && return 0
	tail -20 build/apt.log >&2
	echo "could not install: ${missing[*]}" >&2
	return 1
}

# The lists of packages are input of a test (t/50-broker-input.py); an image that was made small has none.
package_lists() {
	[ "$(apt-cache dumpavail 2>/dev/null | grep -c '^Package: ')" -lt 10000 ] || return 0
	echo "fetching package lists"
	as_root apt-get update -q >build/apt.log 2>&1 || tail -5 build/apt.log >&2
}

# Whether a list of sources or the configuration changed after DIR was configured.
is_stale() {
	[ ! -f "$1/Makefile" ] || [ ! -x configure ] ||
		[ -n "$(find configure.ac Makefile.am ./*/local.mk ./*/*/local.mk -newer "$1/Makefile" 2>/dev/null)" ]
}

# make_each DIR TARGET...: one after the other, for `all` runs a make of its own over the same objects.
make_each() {
	local dir=$1 target
	shift
	for target; do
		make -C "$dir" -j"$(nproc)" "$target" || return
	done
}

# build DIR TARGETS [CONFIGURE-OPTION...]: the log is DIR.log; its end is shown when something fails.
build() {
	local dir=$1 targets=$2 began=$SECONDS
	shift 2
	mkdir -p "$dir"
	{
		if is_stale "$dir"; then
			autoreconf -fi && (cd "$dir" && "$top/configure" "$@")
		fi && make_each "$dir" $targets
	} >"$dir.log" 2>&1 || {
		tail -30 "$dir.log" >&2
		echo "the build in $dir failed; all of it is in $dir.log" >&2
		return 1
	}
	echo "built $dir in $((SECONDS - began)) s"
}
