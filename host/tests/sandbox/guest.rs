//! Builds small components from WebAssembly text. The module is written by hand, its types come
//! from the WIT package.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The beginning of every guest. Tests write their texts to memory from 4096 on; `cabi_realloc`
/// allocates the memory after them.
const PRELUDE: &str = r#"
    (import "strata:action/log@0.2.0" "write" (func $log (param i32 i32 i32)))
    (import "strata:action/clock@0.2.0" "sleep" (func $sleep (param i32)))
    (import "strata:action/clock@0.2.0" "unix-time-ms" (func $now (result f64)))
    (import "strata:action/random@0.2.0" "bytes" (func $random (param i32 i32)))
    (import "strata:action/environment@0.2.0" "emit"
        (func $emit_raw (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "strata:action/state@0.2.0" "get" (func $get (param i32 i32 i32 i32 i32)))
    (import "strata:action/state@0.2.0" "set" (func $set (param i32 i32 i32 i32 i32 i32 i32)))
    (import "strata:action/state@0.2.0" "delete" (func $delete (param i32 i32 i32 i32 i32)))
    (import "strata:action/memory@0.2.0" "recent" (func $recent (param i32 i32 i32)))
    (import "strata:action/files@0.2.0" "read" (func $read (param i32 i32 i32)))
    (import "strata:action/files@0.2.0" "write" (func $write (param i32 i32 i32 i32 i32)))
    (import "strata:action/files@0.2.0" "list" (func $list (param i32 i32 i32)))
    (import "strata:action/llm@0.2.0" "complete" (func $complete (param i32 i32)))
    (import "strata:action/http@0.2.0" "fetch"
        (func $fetch (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "strata:action/secrets@0.2.0" "placeholder" (func $placeholder (param i32 i32 i32)))
    (import "strata:action/env@0.2.0" "get" (func $variable (param i32 i32 i32)))
    (import "strata:action/tools@0.2.0" "list" (func $tools (param i32)))
    (import "strata:action/mcp@0.2.0" "call-tool" (func $call_tool (param i32 i32 i32 i32 i32 i32 i32)))

    (global $heap (mut i32) (i32.const 16384))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
        (global.set $heap (i32.add (local.get $at) (local.get 3)))
        (block $fits
            (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
            (br_if $fits (i32.ne (i32.const -1) (memory.grow (i32.add (i32.const 1)
                (i32.shr_u (local.get 3) (i32.const 16))))))
            unreachable)
        (local.get $at))

    ;; A result of `run` at 1024: a text.
    (func $ok (param $text i32) (param $length i32) (result i32)
        (i32.store (i32.const 1024) (i32.const 0))
        (i32.store (i32.const 1028) (local.get $text))
        (i32.store (i32.const 1032) (local.get $length))
        (i32.const 1024))
    ;; A result of `run` at 1024: a text and data.
    (func $ok_data (param $text i32) (param $length i32) (param $data i32) (param $data_length i32) (result i32)
        (i32.store (i32.const 1036) (i32.const 1))
        (i32.store (i32.const 1040) (local.get $data))
        (i32.store (i32.const 1044) (local.get $data_length))
        (call $ok (local.get $text) (local.get $length)))
    ;; A result of `run` at 1024: a failure.
    (func $fail (param $kind i32) (param $text i32) (param $length i32) (result i32)
        (i32.store (i32.const 1024) (i32.const 1))
        (i32.store (i32.const 1028) (local.get $kind))
        (i32.store (i32.const 1032) (local.get $text))
        (i32.store (i32.const 1036) (local.get $length))
        (i32.const 1024))
    ;; What a host function left at 2048, with its text at 2052 + `skip`; refusals become failures, `denied` as such.
    (func $told (param $skip i32) (result i32)
        (if (result i32) (i32.load8_u (i32.const 2048))
            (then (call $fail
                (select (i32.const 0) (i32.const 2) (i32.load8_u (i32.const 2052)))
                (i32.load (i32.const 2056)) (i32.load (i32.const 2060))))
            (else (call $ok
                (i32.load (i32.add (local.get $skip) (i32.const 2052)))
                (i32.load (i32.add (local.get $skip) (i32.const 2056)))))))
    (func $emit (param $text i32) (param $length i32)
        (call $emit_raw (local.get $text) (local.get $length)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 2048)))

    ;; A manifest at 512: name, version, description.
    (data (i32.const 512) "\80\02\00\00\05\00\00\00\85\02\00\00\05\00\00\00\8a\02\00\00\06\00\00\00")
    (data (i32.const 640) "guest0.1.0tests.")
"#;

/// The parts of a guest.
pub struct Guest<'a> {
    /// Imports besides the host's functions.
    pub imports: &'a str,
    /// Items besides `run`: functions, data, tables.
    pub items: &'a str,
    /// The body of `run`. Local 0 points to the parameters; it returns a pointer to the result.
    pub run: &'a str,
    /// The body of `describe`.
    pub describe: &'a str,
    /// The size of its memory in pages.
    pub memory: &'a str,
    /// Exports besides `handler`.
    pub exports: &'a str,
    /// The name of its world.
    pub world: &'a str,
}

impl Default for Guest<'_> {
    fn default() -> Self {
        Self {
            imports: "",
            items: "",
            run: "(call $ok (i32.const 640) (i32.const 5))",
            describe: "(i32.const 512)",
            memory: "2",
            exports: "",
            world: "action",
        }
    }
}

impl Guest<'_> {
    /// Builds the component.
    pub fn build(&self) -> Vec<u8> {
        let Self {
            imports,
            items,
            run,
            describe,
            memory,
            exports,
            world,
        } = self;
        let module = format!(
            r#"(module $guest {imports} {PRELUDE}
                (memory (export "memory") {memory})
                {items}
                (func $describe (export "strata:action/handler@0.2.0#describe") (result i32) {describe})
                (func $run (export "strata:action/handler@0.2.0#run") (param i32) (result i32) {run})
                {exports})"#
        );
        encode(&module, world)
    }
}

/// Returns a guest with this body of `run`.
pub fn running(run: &str) -> Vec<u8> {
    let guest = Guest {
        run,
        ..Guest::default()
    };
    guest.build()
}

/// Returns a guest with these items and this body of `run`.
pub fn with(items: &str, run: &str) -> Vec<u8> {
    let guest = Guest {
        items,
        run,
        ..Guest::default()
    };
    guest.build()
}

/// The parts of WASI 0.2 that these guests import, and a world with them.
const WASI: &str = r#"
    package test:guest;
    world wasi-action {
        include strata:action/action@0.2.0;
        import wasi:random/random@0.2.0;
        import wasi:random/insecure@0.2.0;
        import wasi:random/insecure-seed@0.2.0;
        import wasi:cli/environment@0.2.0;
        import wasi:cli/stdout@0.2.0;
        import wasi:cli/exit@0.2.0;
        import wasi:filesystem/preopens@0.2.0;
        import wasi:clocks/wall-clock@0.2.0;
        import wasi:clocks/monotonic-clock@0.2.0;
    }
    package wasi:io@0.2.0 {
        interface error { resource error; }
        interface poll { resource pollable { block: func(); } }
        interface streams {
            use error.{error};
            variant stream-error { last-operation-failed(error), closed }
            resource output-stream {
                blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
            }
        }
    }
    package wasi:random@0.2.0 {
        interface random { get-random-u64: func() -> u64; }
        interface insecure { get-insecure-random-u64: func() -> u64; }
        interface insecure-seed { insecure-seed: func() -> tuple<u64, u64>; }
    }
    package wasi:cli@0.2.0 {
        interface environment { get-environment: func() -> list<tuple<string, string>>; }
        interface exit { exit: func(status: result); }
        interface stdout {
            use wasi:io/streams@0.2.0.{output-stream};
            get-stdout: func() -> output-stream;
        }
    }
    package wasi:filesystem@0.2.0 {
        interface types {
            use wasi:clocks/wall-clock@0.2.0.{datetime};
            type filesize = u64;
            flags descriptor-flags {
                read, write, file-integrity-sync, data-integrity-sync, requested-write-sync, mutate-directory,
            }
            flags path-flags { symlink-follow }
            flags open-flags { create, directory, exclusive, truncate }
            enum error-code {
                access, would-block, already, bad-descriptor, busy, deadlock, quota, exist, file-too-large,
                illegal-byte-sequence, in-progress, interrupted, invalid, io, is-directory, loop, too-many-links,
                message-size, name-too-long, no-device, no-entry, no-lock, insufficient-memory, insufficient-space,
                not-directory, not-empty, not-recoverable, unsupported, no-tty, no-such-device, overflow,
                not-permitted, pipe, read-only, invalid-seek, text-file-busy, cross-device,
            }
            enum descriptor-type {
                unknown, block-device, character-device, directory, fifo, symbolic-link, regular-file, socket,
            }
            type link-count = u64;
            record descriptor-stat {
                %type: descriptor-type,
                link-count: link-count,
                size: filesize,
                data-access-timestamp: option<datetime>,
                data-modification-timestamp: option<datetime>,
                status-change-timestamp: option<datetime>,
            }
            record metadata-hash-value { lower: u64, upper: u64 }
            record directory-entry { %type: descriptor-type, name: string }
            resource directory-entry-stream {
                read-directory-entry: func() -> result<option<directory-entry>, error-code>;
            }
            resource descriptor {
                read-directory: func() -> result<directory-entry-stream, error-code>;
                stat: func() -> result<descriptor-stat, error-code>;
                stat-at: func(path-flags: path-flags, path: string) -> result<descriptor-stat, error-code>;
                metadata-hash: func() -> result<metadata-hash-value, error-code>;
                metadata-hash-at: func(path-flags: path-flags, path: string) -> result<metadata-hash-value, error-code>;
                open-at: func(path-flags: path-flags, path: string, open-flags: open-flags, %flags: descriptor-flags)
                    -> result<descriptor, error-code>;
                write: func(buffer: list<u8>, offset: filesize) -> result<filesize, error-code>;
                create-directory-at: func(path: string) -> result<_, error-code>;
                unlink-file-at: func(path: string) -> result<_, error-code>;
                symlink-at: func(old-path: string, new-path: string) -> result<_, error-code>;
            }
        }
        interface preopens {
            use types.{descriptor};
            get-directories: func() -> list<tuple<descriptor, string>>;
        }
    }
    package wasi:clocks@0.2.0 {
        interface wall-clock {
            record datetime { seconds: u64, nanoseconds: u32 }
            now: func() -> datetime;
        }
        interface monotonic-clock {
            use wasi:io/poll@0.2.0.{pollable};
            now: func() -> u64;
            subscribe-duration: func(when: u64) -> pollable;
        }
    }
"#;

/// Returns a guest that imports WASI, as those of most languages do.
pub fn wasi(run: &str) -> Vec<u8> {
    let guest = Guest {
        imports: r#"
            (import "wasi:random/random@0.2.0" "get-random-u64" (func $wasi_random (result i64)))
            (import "wasi:random/insecure@0.2.0" "get-insecure-random-u64" (func $wasi_insecure (result i64)))
            (import "wasi:random/insecure-seed@0.2.0" "insecure-seed" (func $wasi_seed (param i32)))
            (import "wasi:cli/environment@0.2.0" "get-environment" (func $wasi_environment (param i32)))
            (import "wasi:cli/exit@0.2.0" "exit" (func $wasi_exit (param i32)))
            (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $wasi_stdout (result i32)))
            (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
                (func $wasi_write (param i32 i32 i32 i32)))
            (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $wasi_directories (param i32)))"#,
        run,
        world: "test:guest/wasi-action",
        ..Guest::default()
    };
    guest.build()
}

/// Returns a guest with WASI's clocks and files. `$dir` is the first granted directory, if there is
/// one, and `$time` is a free local.
pub fn wasi_worker(items: &str, run: &str) -> Vec<u8> {
    let run = format!(
        "(local $dir i32) (local $time i64) (call $wasi_directories (i32.const 2056))
         (if (i32.load (i32.const 2060)) (then (local.set $dir (i32.load (i32.load (i32.const 2056)))))) {run}"
    );
    let guest = Guest {
        imports: r#"
            (import "wasi:clocks/wall-clock@0.2.0" "now" (func $wasi_date (param i32)))
            (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $wasi_now (result i64)))
            (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $wasi_alarm (param i64) (result i32)))
            (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $wasi_block (param i32)))
            (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $wasi_directories (param i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
                (func $wasi_open (param i32 i32 i32 i32 i32 i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[resource-drop]descriptor" (func $wasi_close (param i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.stat" (func $wasi_stat (param i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.stat-at"
                (func $wasi_stat_at (param i32 i32 i32 i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.metadata-hash"
                (func $wasi_hash (param i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.metadata-hash-at"
                (func $wasi_hash_at (param i32 i32 i32 i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.read-directory"
                (func $wasi_list (param i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]directory-entry-stream.read-directory-entry"
                (func $wasi_next (param i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[resource-drop]directory-entry-stream"
                (func $wasi_end_list (param i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.write"
                (func $wasi_put (param i32 i32 i32 i64 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.create-directory-at"
                (func $wasi_mkdir (param i32 i32 i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.unlink-file-at"
                (func $wasi_unlink (param i32 i32 i32 i32)))
            (import "wasi:filesystem/types@0.2.0" "[method]descriptor.symlink-at"
                (func $wasi_link (param i32 i32 i32 i32 i32 i32)))"#,
        items,
        run: &run,
        world: "test:guest/wasi-action",
        ..Guest::default()
    };
    guest.build()
}

fn encode(module: &str, world: &str) -> Vec<u8> {
    let mut module = wat::parse_str(module).expect("the guest's text is right");
    let mut resolve = Resolve::default();
    let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit");
    let (package, _) = resolve.push_path(wit).expect("the WIT package is right");
    let wasi = resolve
        .push_str("wasi.wit", WASI)
        .expect("the excerpt of WASI is right");
    let package = if world.starts_with("test:") {
        wasi
    } else {
        package
    };
    let world = resolve
        .select_world(&[package], Some(world))
        .expect("the world exists");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("the types are embedded");
    let mut encoder = ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .expect("the guest is a module");
    encoder.encode().expect("the guest becomes a component")
}
