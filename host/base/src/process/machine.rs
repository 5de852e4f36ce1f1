//! The machine on which this process runs.

/// Returns the name of this machine; empty if the system does not say it.
pub fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
