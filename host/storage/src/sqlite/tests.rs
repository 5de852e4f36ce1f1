//! Several runs in one database file.

mod several_runs;
