# Makes a core module with zig: one on the PATH, or what `ZIG` says, e.g. ZIG="python3 -m ziglang".
set -e
exec ${ZIG:-zig} build-exe action.zig -target wasm32-freestanding -fno-entry -rdynamic -fno-strip -O ReleaseSmall \
    -femit-bin="$STRATA_OUT"
