//! WASI 0.2, for components whose toolchains import all of it: only what the plugin is granted, no
//! sockets, empty input, output to the log, and the same random numbers in every attempt.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::Grant;
use tokio::io::AsyncWrite;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::p2::bindings::filesystem::preopens::Host as _;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsResult, OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView, async_trait};

use clock::GuestClock;
use listing::OpenListings;
use strata_base::files::sha256::sha256;
use strata_services::plugin::{Access, DirGrant};
use strata_services::variables::Variables;

use super::super::ctx::Ctx;
use super::super::log::{GuestLog, LogLevel};
use super::files::{HiddenStorage, OpenFiles};

mod change;
mod clock;
mod listing;
mod open;
mod stat;

/// The interface of WASI's file functions.
const FILESYSTEM_TYPES: &str = "wasi:filesystem/types@0.2.12";

/// The store as host functions that are added to the linker receive it.
type GuestStore<'a> = StoreContextMut<'a, Ctx>;

/// How much a guest may write to a stream at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Longer lines are split.
const MAX_LINE_BYTES: usize = 64 << 10;
/// How many random bytes are returned at once; asking for more ends the attempt. The limit of
/// `random` is the same.
const RANDOM_BYTES: u64 = 65536;
/// How many resources a guest may hold: streams, descriptors, pollables. Each stream may hold a
/// chunk in the host's memory.
const MAX_HANDLES: usize = 512;

/// Adds WASI to the linker, with the clocks and file functions of this module.
pub(in super::super) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    clock::add_to_linker(linker)?;
    open::add_to_linker(linker)?;
    change::add_to_linker(linker)?;
    stat::add_to_linker(linker)?;
    listing::add_to_linker(linker)
}

/// Adds WASI to an attempt whose component imports it, once its files were staged. Its random numbers are
/// derived from `seed`.
pub(in super::super) fn add_to_attempt(ctx: &mut Ctx, seed: &str) {
    let files = &ctx.capabilities.files;
    let wasi = WasiState::new(WasiSetup {
        env: &ctx.capabilities.grants().env,
        dirs: &files.granted_dirs(),
        variables: &ctx.capabilities.variables(),
        seed,
        log: &ctx.log,
        open_files: files.open_files(),
        hidden: files.hidden_storage(),
    });
    ctx.capabilities.add_wasi(wasi);
}

/// What the WASI state of an attempt is created from.
struct WasiSetup<'a> {
    /// The variables that may be read.
    env: &'a [String],
    /// The granted directories, where their files are for this attempt.
    dirs: &'a [DirGrant],
    /// Where the values of granted variables are looked up.
    variables: &'a Variables,
    /// The random numbers are derived from it.
    seed: &'a str,
    /// Receives the standard streams.
    log: &'a Arc<Mutex<GuestLog>>,
    /// Receives the files that the guest opens.
    open_files: OpenFiles,
    /// The files of the host, which are not opened.
    hidden: HiddenStorage,
}

/// The WASI state of one attempt.
pub(in super::super) struct WasiState {
    ctx: WasiCtx,
    table: ResourceTable,
    streams: [LogStream; 2],
    clock: GuestClock,
    open_files: OpenFiles,
    /// The files of the host, which are not opened.
    hidden: HiddenStorage,
    listings: OpenListings,
}

impl WasiState {
    /// Creates the state of an attempt.
    fn new(setup: WasiSetup<'_>) -> Self {
        let WasiSetup {
            env,
            dirs,
            variables,
            seed,
            log,
            open_files,
            hidden,
        } = setup;
        // The seeds are independent: whoever sees the insecure numbers learns nothing about the
        // others.
        let seeds = ["random", "insecure", "insecure-seed"]
            .map(|stream| sha256(format!("{seed}/wasi/{stream}")));
        let streams = [LogLevel::Info, LogLevel::Warn].map(|level| LogStream::new(level, log));
        let mut builder = WasiCtxBuilder::new();
        builder
            .stdout(streams[0].clone())
            .stderr(streams[1].clone())
            .secure_random(StdRng::from_seed(seeds[0]))
            .insecure_random(StdRng::from_seed(seeds[1]))
            .insecure_random_seed(u128::from_le_bytes(first_half(seeds[2])))
            .max_random_size(RANDOM_BYTES)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false);
        for name in env {
            // A variable that the host does not have is missing for the guest too.
            if let Ok(value) = variables.get(name) {
                builder.env(name, value);
            }
        }
        for dir in dirs {
            let perms = match dir.access {
                Access::Read => FsPerms::ReadOnly,
                Access::Write => FsPerms::ReadWrite,
            };
            if dir.access == Access::Write {
                // If this fails, opening fails too, and the directory is missing for the guest.
                let _ = std::fs::create_dir_all(&dir.host);
            }
            if let Err(error) = builder.preopened_dir(&dir.host, &dir.guest, perms) {
                tracing::warn!(
                    "cannot open the granted directory `{}`: {error:#}",
                    dir.host.display()
                );
            }
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        let mut ctx = builder.build();
        let mut files = WasiFilesystemCtxView {
            ctx: ctx.filesystem(),
            table: &mut table,
        };
        // Fails if there are more directories than handles.
        for (directory, name) in files.get_directories().unwrap_or_default() {
            if let Ok(descriptor) = table.delete(directory) {
                open_files.add_granted(open::file_of(&descriptor), &name);
            }
        }
        Self {
            ctx,
            table,
            streams,
            clock: GuestClock::default(),
            open_files,
            hidden,
            listings: OpenListings::default(),
        }
    }

    /// Logs what the guest wrote without ending the line.
    pub(super) fn flush(&self) {
        for stream in &self.streams {
            stream.flush_line();
        }
    }

    pub(super) fn view(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.ctx,
            table: &mut self.table,
        }
    }
}

impl WasiView for Ctx {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.capabilities.wasi().view()
    }
}

/// Returns the result of a file operation as the guest receives it, and notes if it was refused: the
/// path leads out of the granted directory, or something in a directory that is granted for reading
/// is to be changed. Fails with the errors that end the attempt.
fn guest_result<T>(ctx: &mut Ctx, result: FsResult<T>) -> wasmtime::Result<Result<T, ErrorCode>> {
    let error = match result {
        Ok(value) => return Ok(Ok(value)),
        Err(error) => error.downcast()?,
    };
    if matches!(error, ErrorCode::NotPermitted) {
        ctx.note_refusal(Some(FaultCause::NotGranted(Grant::Dirs)));
    }
    Ok(Err(error))
}

fn first_half(digest: [u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| digest[i])
}

/// A standard stream that is logged line by line.
#[derive(Clone)]
struct LogStream {
    level: LogLevel,
    unfinished_line: Arc<Mutex<Vec<u8>>>,
    log: Arc<Mutex<GuestLog>>,
}

impl LogStream {
    fn new(level: LogLevel, log: &Arc<Mutex<GuestLog>>) -> Self {
        Self {
            level,
            unfinished_line: Arc::default(),
            log: Arc::clone(log),
        }
    }

    fn write_bytes(&self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let length = {
                let mut open = self
                    .unfinished_line
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                open.extend_from_slice(part);
                open.len()
            };
            if part.ends_with(b"\n") || length >= MAX_LINE_BYTES {
                self.flush_line();
            }
        }
    }

    fn flush_line(&self) {
        let line = std::mem::take(
            &mut *self
                .unfinished_line
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        if line.is_empty() {
            return;
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.write(self.level, &String::from_utf8_lossy(&line));
    }
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.write_bytes(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK_BYTES)
    }
}

impl AsyncWrite for LogStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_bytes(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
