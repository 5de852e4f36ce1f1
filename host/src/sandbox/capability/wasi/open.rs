//! How guests that use WASI open files: as WASI does, but for pipes and devices, which are not opened, and it is noted
//! what they have open, and where they found it.

use std::fs::File;
use std::sync::{Arc, OnceLock};

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use super::super::super::ctx::Ctx;
use super::FILES;

/// Files and directories that are open at once, where the process may have enough of them.
const MOST_OPEN: usize = 128;

/// A directory, and what is opened in it, how.
type Asked = (
    Resource<Descriptor>,
    PathFlags,
    String,
    OpenFlags,
    DescriptorFlags,
);
type Given = Result<Resource<Descriptor>, ErrorCode>;

/// Puts this in the place of WASI's own.
pub(super) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(FILES)?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, Ctx>, asked: Asked| {
            Box::new(async move { Ok((store.data_mut().open_at(asked).await?,)) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// What the system knows as open.
pub(super) fn file_of(descriptor: &Descriptor) -> &Arc<File> {
    match descriptor {
        Descriptor::File(file) => &file.file,
        Descriptor::Dir(dir) => &dir.dir,
    }
}

/// How many files and directories an attempt may have open at once. The process has a few of them for all: no attempt
/// gets more than a sixteenth, and none needs more than this.
fn most_open() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let all = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        all.map_or(MOST_OPEN, |all| {
            usize::try_from(all / 16)
                .unwrap_or(MOST_OPEN)
                .clamp(16, MOST_OPEN)
        })
    })
}

impl Ctx {
    async fn open_at(
        &mut self,
        (directory, path_flags, path, open_flags, flags): Asked,
    ) -> wasmtime::Result<Given> {
        let (above, at) = (
            Resource::new_borrow(directory.rep()),
            Resource::new_borrow(directory.rep()),
        );
        if self.capabilities.wasi().opened.count() >= most_open() {
            return Ok(Err(ErrorCode::InsufficientMemory));
        }
        // Opening a pipe waits for its other end, and nothing can end that.
        if let Ok(found) = self
            .filesystem()
            .stat_at(at, path_flags, path.clone())
            .await
            && !matches!(
                found.type_,
                DescriptorType::RegularFile
                    | DescriptorType::Directory
                    | DescriptorType::SymbolicLink
            )
        {
            return Ok(Err(ErrorCode::NotPermitted));
        }
        let opened = self
            .filesystem()
            .open_at(directory, path_flags, path.clone(), open_flags, flags)
            .await;
        let opened = match opened {
            Err(error) => return error.downcast().map(Err),
            Ok(opened) => opened,
        };
        let wasi = self.capabilities.wasi();
        if wasi.own.has(file_of(wasi.table.get(&opened)?)) {
            wasi.table.delete(opened)?;
            return Ok(Err(ErrorCode::NotPermitted));
        }
        if let (Descriptor::Dir(above), opened) =
            (wasi.table.get(&above)?, wasi.table.get(&opened)?)
        {
            wasi.opened.add(&above.dir, &path, file_of(opened));
        }
        Ok(Ok(opened))
    }
}
