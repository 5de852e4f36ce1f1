//! The client against hostile servers on loopback.
