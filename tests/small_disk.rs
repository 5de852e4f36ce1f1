//! Runs on a disk that is full before they are created.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::live::GREETER;
use crate::workspace::Workspace;

/// A file system in memory, which is unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one at a path. Returns `None` if that is not allowed here.
    fn mount(path: &Path, size: &str) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let disk = Self(path.to_owned());
        disk.set(&format!("size={size}")).then_some(disk)
    }

    /// Mounts it with these options, again if it is mounted. Returns whether that is allowed here.
    fn set(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&self.0)
            .output()
            .is_ok_and(|out| out.status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_run_that_could_not_be_created_on_a_full_disk_leaves_nothing_that_looks_lost() {
    // There is space for nothing, for a part of the database, and for the database without its log.
    for size in ["16k", "40k", "80k", "100k"] {
        let place = Workspace::with(GREETER);
        let Some(disk) = SmallDisk::mount(&place.path("disk"), size) else {
            eprintln!("skipped: mounting a small file system is not allowed here");
            return;
        };
        let run = ["run", "team.toml", "--storage", "disk/store"];
        place.host(&run).expect(1);
        assert!(disk.set("remount,size=64m"), "{size}");
        let shown = place.host(&["inspect", "disk/store"]);
        assert!(!shown.stderr.contains("lost"), "{size}: {shown:?}");
        assert!(!place.path("disk/store/.team.db.new").exists(), "{size}");
        // Either nothing is there, or a run that has not begun.
        match shown.code {
            Some(2) => place.host(&run).expect(0),
            _ => place
                .host(&["run", "--recover_path", "disk/store"])
                .expect(0),
        };
    }
}
