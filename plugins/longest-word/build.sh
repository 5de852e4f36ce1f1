# Builds a core module with zig. `ZIG` is the command to run; by default `zig`. Example: ZIG="python3 -m ziglang".
set -e
exec ${ZIG:-zig} build-exe action.zig -target wasm32-freestanding -fno-entry -rdynamic -fno-strip -O ReleaseSmall \
    -femit-bin="$STRATA_OUT"
