//! Runs the program of a toolchain and keeps what it says for the error message.

use std::io::{self, Read};
use std::process::{Command, Stdio};

/// Kept of what a program writes. The last lines are the ones that matter: the cause comes after the steps.
const DETAILS_BYTES: usize = 64 << 10;

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Whether it says that it did what it was to do.
    pub success: bool,
    /// What it wrote, to stdout and stderr alike.
    pub details: String,
}

/// Runs a program to its end, without input.
pub fn run(command: &mut Command) -> io::Result<Ended> {
    let (mut read, write) = io::pipe()?;
    let child = command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write).spawn();
    // The command holds the pipe's other end, too: without letting go of it, reading would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child?;
    let mut kept = Vec::new();
    let mut chunk = [0; 8 << 10];
    loop {
        match read.read(&mut chunk)? {
            0 => break,
            length => kept.extend_from_slice(&chunk[..length]),
        }
        if kept.len() > 2 * DETAILS_BYTES {
            kept.drain(..kept.len() - DETAILS_BYTES);
        }
    }
    let success = child.wait()?.success();
    let details = String::from_utf8_lossy(&kept[kept.len().saturating_sub(DETAILS_BYTES)..]).into_owned();
    Ok(Ended { success, details })
}
