//! Checks whether this process may make memory executable. systemd's `MemoryDenyWriteExecute`,
//! SELinux without `execmem` and `PR_SET_MDWE` forbid it. The engine would only notice when it
//! loads a component, with an error that looks like one of the component.

use std::ptr::null_mut;

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::SandboxError;

/// The size of the test mapping; the kernel rounds it up to a page.
const TEST_BYTES: usize = 1;

/// Fails if memory that was written cannot be made executable. Other failures are ignored here: the
/// engine needs more memory than this and reports them.
pub(super) fn check_executable_memory() -> std::result::Result<(), SandboxError> {
    match make_executable() {
        Err(Errno::ACCESS | Errno::PERM) => Err(SandboxError::NoExecutableMemory),
        _ => Ok(()),
    }
}

/// Does what the engine does with compiled code, without writing anything.
#[allow(
    unsafe_code,
    reason = "memory is mapped in no other way; see the safety comment"
)]
fn make_executable() -> Result<()> {
    // SAFETY: the kernel chooses an unused address. Nobody reads, writes or executes the memory,
    // and it is unmapped before the address is discarded.
    unsafe {
        let memory = mmap_anonymous(
            null_mut(),
            TEST_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?;
        let result = mprotect(
            memory,
            TEST_BYTES,
            MprotectFlags::READ | MprotectFlags::EXEC,
        );
        munmap(memory, TEST_BYTES)?;
        result
    }
}

#[test]
fn where_tests_run_memory_can_be_made_executable() {
    assert!(check_executable_memory().is_ok());
}
