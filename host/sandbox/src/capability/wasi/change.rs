//! How guests that use WASI change files and directories: as in wasmtime-wasi, but nothing is changed
//! that a symbolic link leads to, and if a change is refused, the reason is noted, so that a fault can
//! advise what to grant.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    ErrorCode, Filesize, HostDescriptor, NewTimestamp, PathFlags,
};

use super::super::super::ctx::Ctx;
use super::open::{LastName, leads_through_link};
use super::{FILESYSTEM_TYPES, GuestStore, guest_result};

/// The parameters of functions that change what a path of a directory names.
type PathParams = (Resource<Descriptor>, String);
/// The parameters of `symlink-at`: the content of the link, and its path.
type SymlinkParams = (Resource<Descriptor>, String, String);
/// The parameters of `rename-at`.
type RenameParams = (Resource<Descriptor>, String, Resource<Descriptor>, String);
/// The parameters of `link-at`.
type LinkParams = (
    Resource<Descriptor>,
    PathFlags,
    String,
    Resource<Descriptor>,
    String,
);
/// The parameters of `set-times-at`.
type SetTimesAtParams = (
    Resource<Descriptor>,
    PathFlags,
    String,
    NewTimestamp,
    NewTimestamp,
);
/// The parameters of functions that change an open file.
type SetTimesParams = (Resource<Descriptor>, NewTimestamp, NewTimestamp);
type SetSizeParams = (Resource<Descriptor>, Filesize);
type WriteParams = (Resource<Descriptor>, Vec<u8>, Filesize);
type WriteStreamParams = (Resource<Descriptor>, Filesize);

/// Replaces the functions of wasmtime-wasi.
pub(super) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    add_path_functions(linker)?;
    add_link_functions(linker)?;
    add_file_functions(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

fn add_path_functions(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    let mut types = linker.instance(FILESYSTEM_TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.create-directory-at",
        |mut store: GuestStore<'_>, (directory, path): PathParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                if let Some(refused) = refuse_link(ctx, &directory, &path).await? {
                    return Ok((Err(refused),));
                }
                let created = ctx.filesystem().create_directory_at(directory, path).await;
                Ok((changed(ctx, created)?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.remove-directory-at",
        |mut store: GuestStore<'_>, (directory, path): PathParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                if let Some(refused) = refuse_link(ctx, &directory, &path).await? {
                    return Ok((Err(refused),));
                }
                let removed = ctx.filesystem().remove_directory_at(directory, path).await;
                Ok((changed(ctx, removed)?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.unlink-file-at",
        |mut store: GuestStore<'_>, (directory, path): PathParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                if let Some(refused) = refuse_link(ctx, &directory, &path).await? {
                    return Ok((Err(refused),));
                }
                let removed = ctx.filesystem().unlink_file_at(directory, path).await;
                Ok((changed(ctx, removed)?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-times-at",
        |mut store: GuestStore<'_>, (directory, flags, path, read, written): SetTimesAtParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let last = if flags.contains(PathFlags::SYMLINK_FOLLOW) {
                    LastName::Followed
                } else {
                    LastName::NotFollowed
                };
                if let Some(refused) = refuse_followed(ctx, &directory, &path, last).await? {
                    return Ok((Err(refused),));
                }
                let mut files = ctx.filesystem();
                let set = files.set_times_at(directory, flags, path, read, written);
                let set = set.await;
                Ok((changed(ctx, set)?,))
            })
        },
    )
}

fn add_link_functions(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    let mut types = linker.instance(FILESYSTEM_TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.rename-at",
        |mut store: GuestStore<'_>, (from, old_path, to, new_path): RenameParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                for (directory, path) in [(&from, &old_path), (&to, &new_path)] {
                    if let Some(refused) = refuse_link(ctx, directory, path).await? {
                        return Ok((Err(refused),));
                    }
                }
                let mut files = ctx.filesystem();
                let renamed = files.rename_at(from, old_path, to, new_path).await;
                Ok((changed(ctx, renamed)?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.link-at",
        |mut store: GuestStore<'_>, (from, flags, old_path, to, new_path): LinkParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let is_writable = is_writable(ctx, &from)? && is_writable(ctx, &to)?;
                for (directory, path) in [(&from, &old_path), (&to, &new_path)] {
                    if let Some(refused) = refuse_link(ctx, directory, path).await? {
                        return Ok((Err(refused),));
                    }
                }
                let mut files = ctx.filesystem();
                let linked = files.link_at(from, flags, old_path, to, new_path).await;
                Ok((link_result(ctx, linked, is_writable)?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.symlink-at",
        |mut store: GuestStore<'_>, (directory, content, path): SymlinkParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let is_writable = is_writable(ctx, &directory)?;
                if let Some(refused) = refuse_link(ctx, &directory, &path).await? {
                    return Ok((Err(refused),));
                }
                let linked = ctx.filesystem().symlink_at(directory, content, path).await;
                Ok((link_result(ctx, linked, is_writable)?,))
            })
        },
    )
}

fn add_file_functions(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    let mut types = linker.instance(FILESYSTEM_TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.set-times",
        |mut store: GuestStore<'_>, (file, read, written): SetTimesParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let set = ctx.filesystem().set_times(file, read, written).await;
                Ok((changed(ctx, set)?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-size",
        |mut store: GuestStore<'_>, (file, bytes): SetSizeParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let set = ctx.filesystem().set_size(file, bytes).await;
                Ok((changed(ctx, set)?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.write",
        |mut store: GuestStore<'_>, (file, bytes, offset): WriteParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let written = ctx.filesystem().write(file, bytes, offset).await;
                Ok((changed(ctx, written)?,))
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |mut store: GuestStore<'_>, (file, offset): WriteStreamParams| {
            let ctx = store.data_mut();
            let opened = ctx.filesystem().write_via_stream(file, offset);
            Ok((changed(ctx, opened)?,))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.append-via-stream",
        |mut store: GuestStore<'_>, (file,): (Resource<Descriptor>,)| {
            let ctx = store.data_mut();
            let opened = ctx.filesystem().append_via_stream(file);
            Ok((changed(ctx, opened)?,))
        },
    )
}

/// Returns the result of a change as the guest receives it, and notes whether the change was refused.
fn changed<T>(ctx: &mut Ctx, result: FsResult<T>) -> wasmtime::Result<Result<T, ErrorCode>> {
    ctx.note_refusal(None);
    guest_result(ctx, result)
}

/// Returns the result of creating a link, like `changed`. In directories that are granted for
/// writing, the system or wasmtime-wasi refuses some links, which no grant would allow.
fn link_result(
    ctx: &mut Ctx,
    result: FsResult<()>,
    is_writable: bool,
) -> wasmtime::Result<Result<(), ErrorCode>> {
    let linked = changed(ctx, result)?;
    if is_writable {
        ctx.note_refusal(None);
    }
    Ok(linked)
}

/// Returns the error of changing what a path names if a symbolic link leads to it. The last name of
/// the path is that of the link itself, if it is one.
async fn refuse_link(
    ctx: &mut Ctx,
    directory: &Resource<Descriptor>,
    path: &str,
) -> wasmtime::Result<Option<ErrorCode>> {
    refuse_followed(ctx, directory, path, LastName::NotFollowed).await
}

/// Returns the error of changing something at a path on which a symbolic link is followed. In a
/// directory that is granted for reading, the change is refused for that reason instead.
async fn refuse_followed(
    ctx: &mut Ctx,
    directory: &Resource<Descriptor>,
    path: &str,
    last: LastName,
) -> wasmtime::Result<Option<ErrorCode>> {
    if !is_writable(ctx, directory)? || !leads_through_link(ctx, directory, path, last).await {
        return Ok(None);
    }
    ctx.note_refusal(None);
    Ok(Some(ErrorCode::Loop))
}

/// Whether a descriptor belongs to a directory that is granted for writing.
fn is_writable(ctx: &mut Ctx, descriptor: &Resource<Descriptor>) -> wasmtime::Result<bool> {
    let perms = match ctx.capabilities.wasi().table.get(descriptor)? {
        Descriptor::File(file) => file.perms,
        Descriptor::Dir(directory) => directory.perms,
    };
    Ok(matches!(perms, FsPerms::ReadWrite))
}
