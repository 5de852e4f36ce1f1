//! Directory listings for guests that use WASI. They are sorted, so that every attempt sees the
//! same, and bounded. The host holds a whole listing until the guest drops it.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::vec::IntoIter;

use cap_std::fs::{Dir, FileType};
use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry, ErrorCode};

use super::super::super::ctx::Ctx;
use super::super::files::MAX_LISTED_NAMES;
use super::super::quota::MAX_LEVELS;
use super::{FILESYSTEM_TYPES, GuestStore};

/// How many listings a guest may have open: enough to walk down the deepest directories with one
/// open at each level.
const MAX_LISTINGS: usize = MAX_LEVELS + 1;
/// How many names all open listings may have.
const MAX_NAMES: usize = 2 * MAX_LISTED_NAMES;

/// The entries of a directory at the time when the listing was opened.
struct DirectoryListing {
    remaining: IntoIter<DirectoryEntry>,
    names: usize,
}

/// The listings that the guest has open.
#[derive(Default)]
pub(super) struct OpenListings {
    count: usize,
    names: usize,
}

impl OpenListings {
    /// Returns how many names another listing may have.
    fn names_left(&self) -> Option<usize> {
        (self.count < MAX_LISTINGS).then_some((MAX_NAMES - self.names).min(MAX_LISTED_NAMES))
    }
}

type ListingResult<T> = Result<T, ErrorCode>;

/// Replaces the functions of wasmtime-wasi.
pub(super) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(FILESYSTEM_TYPES)?;
    types.resource(
        "directory-entry-stream",
        ResourceType::host::<DirectoryListing>(),
        |mut store, listing| drop_listing(store.data_mut(), Resource::new_own(listing)),
    )?;
    types.func_wrap_async(
        "[method]descriptor.read-directory",
        |mut store: GuestStore<'_>, (directory,): (Resource<Descriptor>,)| {
            Box::new(async move { Ok((open_listing(store.data_mut(), directory).await?,)) })
        },
    )?;
    types.func_wrap(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store: GuestStore<'_>, (listing,): (Resource<DirectoryListing>,)| {
            let listing = store
                .data_mut()
                .capabilities
                .wasi()
                .table
                .get_mut(&listing)?;
            Ok((ListingResult::Ok(listing.remaining.next()),))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

async fn open_listing(
    ctx: &mut Ctx,
    directory: Resource<Descriptor>,
) -> wasmtime::Result<ListingResult<Resource<DirectoryListing>>> {
    let wasi = ctx.capabilities.wasi();
    let Descriptor::Dir(directory) = wasi.table.get(&directory)? else {
        return Ok(Err(ErrorCode::NotDirectory));
    };
    let Some(limit) = wasi.listings.names_left() else {
        return Ok(Err(ErrorCode::InsufficientMemory));
    };
    let directory = Arc::clone(&directory.dir);
    let entries = match tokio::task::spawn_blocking(move || entries(&directory, limit)).await? {
        Ok(Some(entries)) => entries,
        Ok(None) => return Ok(Err(ErrorCode::InsufficientMemory)),
        Err(error) => return Ok(Err(error.into())),
    };
    let names = entries.len();
    let listing = wasi.table.push(DirectoryListing {
        remaining: entries.into_iter(),
        names,
    })?;
    wasi.listings.count += 1;
    wasi.listings.names += names;
    Ok(Ok(listing))
}

fn drop_listing(ctx: &mut Ctx, listing: Resource<DirectoryListing>) -> wasmtime::Result<()> {
    let wasi = ctx.capabilities.wasi();
    let listing = wasi.table.delete(listing)?;
    wasi.listings.count -= 1;
    wasi.listings.names -= listing.names;
    Ok(())
}

/// Returns the entries of a directory, sorted; `None` if there are more than `limit`. Names that are
/// not UTF-8 are left out.
fn entries(directory: &File, limit: usize) -> io::Result<Option<Vec<DirectoryEntry>>> {
    let directory = Dir::from_std_file(directory.try_clone()?);
    let mut entries = Vec::new();
    for entry in directory.entries()? {
        let entry = entry?;
        if entries.len() == limit {
            return Ok(None);
        }
        let (Ok(name), kind) = (entry.file_name().into_string(), entry.file_type()?) else {
            continue;
        };
        entries.push(DirectoryEntry {
            type_: type_of(kind),
            name,
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(entries))
}

fn type_of(kind: FileType) -> DescriptorType {
    match kind {
        kind if kind.is_dir() => DescriptorType::Directory,
        kind if kind.is_file() => DescriptorType::RegularFile,
        kind if kind.is_symlink() => DescriptorType::SymbolicLink,
        _ => DescriptorType::Unknown,
    }
}
