//! The metadata of files for guests that use WASI. It is the same in every attempt: timestamps are
//! constant, and hashes are derived from where the guest found a file instead of its inode number.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorStat, DescriptorType, ErrorCode, HostDescriptor, MetadataHashValue, PathFlags,
};

use super::super::super::ctx::Ctx;
use super::open::file_of;
use super::{FILESYSTEM_TYPES, GuestStore, guest_result};

/// The timestamp of all files: the beginning of 1980-01-02. ZIP archives hold no time before 1980, in
/// whatever time zone.
const CONSTANT_TIME: Datetime = Datetime {
    seconds: 315_619_200,
    nanoseconds: 0,
};

/// The parameters of `stat`, `stat-at` and `readlink-at`.
type StatParams = (Resource<Descriptor>,);
type StatAtParams = (Resource<Descriptor>, PathFlags, String);
type ReadLinkParams = (Resource<Descriptor>, String);
type StatResult<T> = Result<T, ErrorCode>;

/// Replaces the functions of wasmtime-wasi.
pub(super) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(FILESYSTEM_TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.stat",
        |mut store: GuestStore<'_>, (file,): StatParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let found = ctx.filesystem().stat(file).await;
                Ok((guest_result(ctx, found.map(constant_metadata))?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.stat-at",
        |mut store: GuestStore<'_>, (at, flags, path): StatAtParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let found = ctx.filesystem().stat_at(at, flags, path).await;
                Ok((guest_result(ctx, found.map(constant_metadata))?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.readlink-at",
        |mut store: GuestStore<'_>, (at, path): ReadLinkParams| {
            Box::new(async move {
                let ctx = store.data_mut();
                let read = ctx.filesystem().readlink_at(at, path).await;
                Ok((guest_result(ctx, read)?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.metadata-hash",
        |mut store: GuestStore<'_>, (file,): StatParams| {
            Box::new(async move { Ok((location_hash(store.data_mut(), &file, "")?,)) })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.metadata-hash-at",
        |mut store: GuestStore<'_>, (at, flags, path): StatAtParams| {
            Box::new(async move { Ok((hash_at(store.data_mut(), at, flags, path).await?,)) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// The sizes and link counts of directories depend on the file system, so they are replaced.
fn constant_metadata(stat: DescriptorStat) -> DescriptorStat {
    let (size, link_count) = match stat.type_ {
        DescriptorType::Directory => (0, 1),
        _ => (stat.size, stat.link_count),
    };
    DescriptorStat {
        type_: stat.type_,
        link_count,
        size,
        data_access_timestamp: Some(CONSTANT_TIME),
        data_modification_timestamp: Some(CONSTANT_TIME),
        status_change_timestamp: Some(CONSTANT_TIME),
    }
}

async fn hash_at(
    ctx: &mut Ctx,
    at: Resource<Descriptor>,
    flags: PathFlags,
    path: String,
) -> wasmtime::Result<StatResult<MetadataHashValue>> {
    let above = Resource::new_borrow(at.rep());
    // Checks that the file exists.
    let found = ctx.filesystem().stat_at(at, flags, path.clone()).await;
    match guest_result(ctx, found)? {
        Ok(_) => location_hash(ctx, &above, &path),
        Err(error) => Ok(Err(error)),
    }
}

/// Returns the hash of the location of a path from an open file.
fn location_hash(
    ctx: &mut Ctx,
    file: &Resource<Descriptor>,
    path: &str,
) -> wasmtime::Result<StatResult<MetadataHashValue>> {
    let wasi = ctx.capabilities.wasi();
    let spot = wasi.open_files.location(file_of(wasi.table.get(file)?));
    let hash = spot
        .map(|spot| spot.join(path).as_pair())
        .map(|(lower, upper)| MetadataHashValue { lower, upper });
    Ok(hash.ok_or(ErrorCode::Unsupported))
}
