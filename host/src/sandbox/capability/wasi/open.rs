//! How guests that use WASI open files: as WASI does, but for pipes and devices, which are not opened, and it is noted
//! what they have open.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use super::super::super::ctx::Ctx;

const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// A directory, and what is opened in it, how.
type Asked = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);
type Given = Result<Resource<Descriptor>, ErrorCode>;

/// Puts this in the place of WASI's own.
pub(in crate::sandbox) fn add_to_linker(linker: &mut Linker<Ctx>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
    types.func_wrap_async("[method]descriptor.open-at", |mut store: StoreContextMut<'_, Ctx>, asked: Asked| {
        Box::new(async move { Ok((store.data_mut().open_at(asked).await?,)) })
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

impl Ctx {
    async fn open_at(&mut self, (directory, path_flags, path, open_flags, flags): Asked) -> wasmtime::Result<Given> {
        let (above, at) = (Resource::new_borrow(directory.rep()), Resource::new_borrow(directory.rep()));
        // Opening a pipe waits for its other end, and nothing can end that.
        if let Ok(found) = self.filesystem().stat_at(at, path_flags, path.clone()).await
            && !matches!(
                found.type_,
                DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink
            )
        {
            return Ok(Err(ErrorCode::NotPermitted));
        }
        let opened = self.filesystem().open_at(directory, path_flags, path, open_flags, flags).await;
        let opened = match opened {
            Err(error) => return error.downcast().map(Err),
            Ok(opened) => opened,
        };
        let wasi = self.capabilities.wasi();
        if let (Descriptor::Dir(above), opened) = (wasi.table.get(&above)?, wasi.table.get(&opened)?) {
            let file = match opened {
                Descriptor::File(file) => &file.file,
                Descriptor::Dir(dir) => &dir.dir,
            };
            wasi.opened.add(&above.dir, file);
        }
        Ok(Ok(opened))
    }
}
