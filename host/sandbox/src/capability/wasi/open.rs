//! How guests that use WASI open files: as in wasmtime-wasi, but pipes and devices are not opened,
//! and opened files are recorded with their location.

use std::fs::File;
use std::sync::{Arc, OnceLock};

use strata_core::record::fault::FaultCause;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use super::super::super::ctx::Ctx;
use super::{FILESYSTEM_TYPES, GuestStore, guest_result};

/// How many files and directories an attempt may have open, if the limit of the process allows it.
const MAX_OPEN: usize = 128;

/// The parameters of `open-at`.
type OpenAtParams = (
    Resource<Descriptor>,
    PathFlags,
    String,
    OpenFlags,
    DescriptorFlags,
);
type OpenAtResult = Result<Resource<Descriptor>, ErrorCode>;

/// Replaces the function of wasmtime-wasi.
pub(super) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(FILESYSTEM_TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: GuestStore<'_>,
         (directory, path_flags, path, open_flags, flags): OpenAtParams| {
            let how = OpenAtFlags {
                path_flags,
                open_flags,
                flags,
            };
            Box::new(async move { Ok((open_at(store.data_mut(), directory, path, how).await?,)) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Returns the file of a descriptor.
pub(super) fn file_of(descriptor: &Descriptor) -> &Arc<File> {
    match descriptor {
        Descriptor::File(file) => &file.file,
        Descriptor::Dir(dir) => &dir.dir,
    }
}

/// Returns how many files and directories an attempt may have open. All attempts share the limit of
/// the process, so each gets at most a sixteenth of it, and never more than `MAX_OPEN`.
fn max_open() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let all = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        all.map_or(MAX_OPEN, |all| {
            usize::try_from(all / 16)
                .unwrap_or(MAX_OPEN)
                .clamp(16, MAX_OPEN)
        })
    })
}

/// The flags of `open-at`.
struct OpenAtFlags {
    path_flags: PathFlags,
    open_flags: OpenFlags,
    flags: DescriptorFlags,
}

impl OpenAtFlags {
    /// Returns whether the file may be created or changed.
    fn writes(&self) -> bool {
        self.flags.contains(DescriptorFlags::WRITE)
            || self
                .open_flags
                .intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE)
    }
}

/// What an operation does if the last name of its path is a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastName {
    /// It follows the link.
    Followed,
    /// It is about the link.
    NotFollowed,
}

/// Returns whether a symbolic link is followed on a path. Links are followed only for reading.
pub(super) async fn leads_through_link(
    ctx: &mut Ctx,
    directory: &Resource<Descriptor>,
    path: &str,
    last: LastName,
) -> bool {
    let ends = path.match_indices('/').map(|(end, _)| end);
    let whole = (last == LastName::Followed).then_some(path.len());
    for end in ends.chain(whole) {
        let at = Resource::new_borrow(directory.rep());
        let above = path[..end].to_owned();
        let mut files = ctx.filesystem();
        let found = files.stat_at(at, PathFlags::empty(), above).await;
        if found.is_ok_and(|found| found.type_ == DescriptorType::SymbolicLink) {
            return true;
        }
    }
    false
}

async fn open_at(
    ctx: &mut Ctx,
    directory: Resource<Descriptor>,
    path: String,
    how: OpenAtFlags,
) -> wasmtime::Result<OpenAtResult> {
    let (above, at) = (
        Resource::new_borrow(directory.rep()),
        Resource::new_borrow(directory.rep()),
    );
    if ctx.capabilities.wasi().open_files.count() >= max_open() {
        return Ok(Err(ErrorCode::InsufficientMemory));
    }
    ctx.note_refusal(None);
    if how.writes() && leads_through_link(ctx, &above, &path, LastName::Followed).await {
        return Ok(Err(ErrorCode::Loop));
    }
    // Opening a pipe waits for its other end and cannot be cancelled.
    if let Ok(found) = ctx
        .filesystem()
        .stat_at(at, how.path_flags, path.clone())
        .await
        && !matches!(
            found.type_,
            DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink
        )
    {
        return Ok(Err(ErrorCode::NotPermitted));
    }
    let opened = ctx
        .filesystem()
        .open_at(
            directory,
            how.path_flags,
            path.clone(),
            how.open_flags,
            how.flags,
        )
        .await;
    let opened = match guest_result(ctx, opened)? {
        Ok(opened) => opened,
        Err(error) => return Ok(Err(error)),
    };
    let wasi = ctx.capabilities.wasi();
    if wasi.hidden.contains(file_of(wasi.table.get(&opened)?)) {
        wasi.table.delete(opened)?;
        ctx.note_refusal(Some(FaultCause::StorageDirectory));
        return Ok(Err(ErrorCode::NotPermitted));
    }
    let is_directory = matches!(wasi.table.get(&opened)?, Descriptor::Dir(_));
    if is_directory && leads_through_link(ctx, &above, &path, LastName::Followed).await {
        // What is reached through a link is not changed, also not relative to this directory.
        if let Descriptor::Dir(linked) = ctx.capabilities.wasi().table.get_mut(&opened)? {
            linked.perms = FsPerms::ReadOnly;
        }
    }
    let wasi = ctx.capabilities.wasi();
    if let (Descriptor::Dir(above), opened) = (wasi.table.get(&above)?, wasi.table.get(&opened)?) {
        wasi.open_files.add(&above.dir, &path, file_of(opened));
    }
    Ok(Ok(opened))
}
