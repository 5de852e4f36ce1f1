//! Which boot of the machine this is. What was only in memory is lost with a boot, also what the system
//! had taken to write to a disk.

use std::fs;
use std::sync::OnceLock;

/// Where Linux says which boot this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Returns the id of the current boot, or `None` if the system does not say.
pub fn id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    let id = ID.get_or_init(|| Some(fs::read_to_string(BOOT_ID).ok()?.trim().to_owned()));
    id.as_deref().filter(|id| !id.is_empty())
}
