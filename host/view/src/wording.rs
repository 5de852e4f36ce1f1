//! Views as text, where the command line and reports say the same: advice about faults, and
//! suggested commands, quoted for a shell.

mod advice;
mod command;
mod denied_lookup;

pub use advice::{ResumeTrigger, describe_advice};
pub use command::{commented_arguments, commented_command, shell_arguments, shell_command};
pub use denied_lookup::describe_denied_lookup;
