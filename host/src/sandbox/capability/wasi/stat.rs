//! The metadata of files for guests that use WASI. It is the same in every attempt: timestamps are
//! constant, and hashes are derived from where the guest found a file instead of its inode number.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorStat, DescriptorType, ErrorCode, HostDescriptor, MetadataHashValue, PathFlags,
};

use super::super::super::ctx::Ctx;
use super::open::file_of;
use super::{FILES, GuestStore};

/// The timestamp of all files.
const TIME: Datetime = Datetime {
    seconds: 0,
    nanoseconds: 0,
};

/// The parameters of `stat` and `stat-at`.
type Open = (Resource<Descriptor>,);
type Path = (Resource<Descriptor>, PathFlags, String);
type Given<T> = Result<T, ErrorCode>;

/// Replaces the functions of wasmtime-wasi.
pub(super) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(FILES)?;
    types.func_wrap_async(
        "[method]descriptor.stat",
        |mut store: GuestStore<'_>, (file,): Open| {
            Box::new(async move {
                Ok((given(
                    store.data_mut().filesystem().stat(file).await.map(told),
                )?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.stat-at",
        |mut store: GuestStore<'_>, (at, flags, path): Path| {
            Box::new(async move {
                Ok((given(
                    store
                        .data_mut()
                        .filesystem()
                        .stat_at(at, flags, path)
                        .await
                        .map(told),
                )?,))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.metadata-hash",
        |mut store: GuestStore<'_>, (file,): Open| {
            Box::new(async move { Ok((hash_of(store.data_mut(), &file, "")?,)) })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.metadata-hash-at",
        |mut store: GuestStore<'_>, (at, flags, path): Path| {
            Box::new(async move { Ok((hash_at(store.data_mut(), at, flags, path).await?,)) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

fn given<T>(result: FsResult<T>) -> wasmtime::Result<Given<T>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => error.downcast().map(Err),
    }
}

/// The sizes and link counts of directories depend on the file system, so they are replaced.
fn told(stat: DescriptorStat) -> DescriptorStat {
    let (size, link_count) = match stat.type_ {
        DescriptorType::Directory => (0, 1),
        _ => (stat.size, stat.link_count),
    };
    DescriptorStat {
        type_: stat.type_,
        link_count,
        size,
        data_access_timestamp: Some(TIME),
        data_modification_timestamp: Some(TIME),
        status_change_timestamp: Some(TIME),
    }
}

async fn hash_at(
    ctx: &mut Ctx,
    at: Resource<Descriptor>,
    flags: PathFlags,
    path: String,
) -> wasmtime::Result<Given<MetadataHashValue>> {
    let above = Resource::new_borrow(at.rep());
    // Checks that the file exists.
    match given(ctx.filesystem().stat_at(at, flags, path.clone()).await)? {
        Ok(_) => hash_of(ctx, &above, &path),
        Err(error) => Ok(Err(error)),
    }
}

/// Returns the hash of the location of a path from an open file.
fn hash_of(
    ctx: &mut Ctx,
    file: &Resource<Descriptor>,
    path: &str,
) -> wasmtime::Result<Given<MetadataHashValue>> {
    let wasi = ctx.capabilities.wasi();
    let spot = wasi.opened.spot(file_of(wasi.table.get(file)?));
    let hash = spot
        .map(|spot| spot.at(path).halves())
        .map(|(lower, upper)| MetadataHashValue { lower, upper });
    Ok(hash.ok_or(ErrorCode::Unsupported))
}
