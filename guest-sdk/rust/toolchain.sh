#!/bin/sh
# Finds or installs a Rust compiler for the target wasm32-unknown-unknown.
#
# Prints the path of the rustc to compile guests with, or nothing if the rustc that cargo uses by default has the
# target. Slow steps and errors are reported on stderr. The script can be run any number of times: an existing compiler
# is used, concurrent runs wait for each other, and an installation that was interrupted is started again.
#
# STRATA_WASM_MODE   auto       the ways below in this order, until one works (the default)
#                    look       use an existing compiler; install nothing
#                    installed  use the default rustc, which must have the target
#                    debian     unpack a newer rustc from Debian packages, without root, and build its std
#                    rustup     `rustup target add`; the last way, because it changes the user's toolchain
# STRATA_WASM_HOME   the directory of the installation; by default strata/rust-wasm in the user's cache
set -eu

target=wasm32-unknown-unknown
oldest=1.95 # the oldest version that compiles strata-action
mode=${STRATA_WASM_MODE:-auto}
home=${STRATA_WASM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/strata/rust-wasm}
rustc=$home/bin/rustc

say() { echo "$*" >&2; }
# Runs one step of the installation. Its output is shown only if it fails.
quietly() { "$@" >"$home/log" 2>&1 || { tail -n 20 "$home/log" >&2; say "failed: $1"; return 1; }; }

installed() {
  dir=$(rustc --print target-libdir --target $target 2>/dev/null) && ls "$dir"/libstd-*.rlib >/dev/null 2>&1
}

rustup_adds() {
  command -v rustup >/dev/null || { say "no rustup here"; return 1; }
  say "asking rustup for $target"
  rustup target add $target >&2 && installed
}

# ------------------------------------------------------------------------------------------ Debian's packages

debian() {
  [ -f "$home/ready" ] && return
  for tool in apt-get apt-cache dpkg-deb tar cargo ldd; do
    command -v $tool >/dev/null || { say "no $tool here"; return 1; }
  done
  mkdir -p "$home"
  if command -v flock >/dev/null; then
    exec 9>"$home/lock"
    flock 9
    [ -f "$home/ready" ] && return
  fi
  rm -rf "$home/debian" "$home/bin" "$home/apt" "$home/std"
  mkdir -p "$home/debian" "$home/bin" "$home/apt/lists/partial" "$home/apt/cache/archives/partial"
  # `set -e` has no effect here, because the function is called in a condition. Each step returns its status.
  find_packages && unpack_packages && wrap_programs && build_std || return 1
  rm -rf "$home/apt" "$home/std" "$home/log"
  echo "$package $version" >"$home/ready.new" && mv "$home/ready.new" "$home/ready"
}

# Set if the package lists of the system are missing or outdated. Private lists are then fetched, which needs no root.
own_lists=
apt() {
  program=$1
  shift
  if [ -n "$own_lists" ]; then
    set -- -o "Dir::State::Lists=$home/apt/lists" -o "Dir::Cache=$home/apt/cache" -o Debug::NoLocking=1 "$@"
  fi
  "$program" -q "$@"
}
depends() { apt apt-cache show "$1=$version" | sed -n 's/^Depends: //p' | head -n 1 | tr ',' '\n'; }

find_packages() {
  find_rustc && return
  own_lists=yes
  quietly apt apt-get update
  find_rustc || { say "no packaged rustc of version $oldest or later"; return 1; }
}

find_rustc() {
  for package in rustc-web rustc; do
    version=$(apt apt-cache policy $package 2>/dev/null | sed -n 's/^ *Candidate: \([^(].*\)$/\1/p')
    if [ -n "$version" ] && dpkg --compare-versions "$version" ge $oldest; then return 0; fi
  done
  return 1
}

unpack_packages() {
  say "fetching $package $version from Debian's packages (about 150 MB, once)"
  case $package in
    rustc-web) std=libstd-rust-web-dev source=rust-web-src ;;
    *) std=libstd-rust-dev source=rust-src ;;
  esac
  runtime=$(depends $std | sed -n 's/^ *\(libstd-rust-[^ ]*[0-9]\) .*/\1/p' | head -n 1)
  llvm=$(depends "$runtime" | grep -o 'libllvm[0-9]*' | head -n 1)
  for name in $package "$runtime" $std "lld-${llvm#libllvm}"; do unpack "$name" || return 1; done
  unpack $source './usr/src/rustc-*/library/*' || return 1 # the compiler's own sources are many times larger
  libraries=$(dirname "$(echo "$home"/debian/usr/lib/*/librustc_driver-*.so)")
  round=0
  while missing=$(missing_library) && [ -n "$missing" ]; do
    round=$((round + 1))
    [ $round -le 12 ] || { say "still missing after $round packages: $missing"; return 1; }
    unpack "$(package_of "$missing")" || return 1
  done
}

unpack() { # package [pattern]
  (cd "$home/apt" && quietly apt apt-get download "$1") || return 1
  dpkg-deb --fsys-tarfile "$home/apt/$1"_*.deb >"$home/apt/tar" || return 1
  if [ $# -gt 1 ]; then
    tar -x -C "$home/debian" -f "$home/apt/tar" --wildcards "$2"
  else
    tar -x -C "$home/debian" -f "$home/apt/tar" --exclude './usr/share/*'
  fi || return 1
  rm "$home/apt/tar" "$home/apt/$1"_*.deb
}

missing_library() {
  LD_LIBRARY_PATH=$libraries ldd "$libraries"/librustc_driver-*.so |
    sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | head -n 1
}

package_of() { # library
  case $1 in
    libLLVM*) echo "$llvm" ;;
    libz3.so.*) echo libz3-4 ;;
    libxml2.so.*) echo libxml2 ;;
    libicu*) echo "libicu${1##*.}" ;;
    *) echo "${1%%.so.*}${1##*.so.}" ;; # libedit.so.2 is in libedit2
  esac
}

# The wrappers set the library path, so that callers need not set it.
wrap_programs() {
  wrap "$rustc" "$home/debian/usr/bin/rustc" || return 1
  host=$("$rustc" -vV | sed -n 's/^host: //p')
  [ -n "$host" ] || { say "the unpacked rustc does not run"; return 1; }
  mkdir -p "$home/debian/usr/lib/rustlib/$host/bin"
  wrap "$home/debian/usr/lib/rustlib/$host/bin/rust-lld" "$(echo "$home"/debian/usr/lib/llvm-*/bin/lld)"
}

wrap() { # wrapper program
  cat >"$1" <<END && chmod +x "$1"
#!/bin/sh
LD_LIBRARY_PATH="$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "$2" "\$@"
END
}

# Builds std as a dependency of an empty crate. The crates that std depends on are next to its sources, so no registry
# is needed.
build_std() {
  say "building the standard library for $target (about a minute, once)"
  library=$(echo "$home"/debian/usr/src/rustc-*/library)
  sysroot=$home/debian/usr/lib/rustlib
  mkdir -p "$home/std/src" "$sysroot/src/rust" "$sysroot/$target/lib"
  ln -sfn "$library" "$sysroot/src/rust/library"
  : >"$home/std/src/lib.rs"
  cat >"$home/std/Cargo.toml" <<'END'
[package]
name = "nothing"
edition = "2024"
[workspace]
[profile.release]
panic = "abort"
codegen-units = 1
END
  # The bitcode allows guests to be optimised together with std. The paths of this machine are replaced, so that a guest
  # becomes the same component on every machine.
  (cd "$home/std" && quietly env -u CARGO_BUILD_TARGET -u RUSTC_WRAPPER \
    RUSTC="$rustc" RUSTC_BOOTSTRAP=1 CARGO_HOME="$home/std/home" \
    CARGO_ENCODED_RUSTFLAGS="$(printf '%s\037%s' -Cembed-bitcode=yes "--remap-path-prefix=$sysroot/src/rust=/rustc/std")" \
    CARGO_TARGET_DIR="$home/std/target" cargo build --release --offline --target $target \
    -Zbuild-std=std,panic_abort --config 'source.crates-io.replace-with="beside"' \
    --config "source.beside.directory=\"$sysroot/src/rust/library/vendor\"") || return 1
  cp "$home/std/target/$target/release/deps"/lib*.rlib "$sysroot/$target/lib/" &&
    rm "$sysroot/$target/lib"/libnothing-*.rlib
}

case $mode in
  installed) installed || { say "rustc has no $target; add it: rustup target add $target"; exit 1; } ;;
  look) installed || { [ -f "$home/ready" ] && echo "$rustc"; } ;;
  rustup) installed || rustup_adds ;;
  debian) debian && echo "$rustc" ;;
  auto) installed || { debian && echo "$rustc"; } || rustup_adds ;;
  *) say "STRATA_WASM_MODE is \`$mode\`; it can be auto, look, installed, debian or rustup"; exit 2 ;;
esac
