//! What tests of several modules use: a server on the loopback interface.

pub(crate) mod loopback;
