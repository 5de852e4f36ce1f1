//! What the operations of the API do. They parse what is asked for and call the library.

pub mod administration;
pub mod bulk;
pub mod control;
pub mod events;
pub mod records;
pub mod requests;
pub mod runs;
pub mod uploads;
