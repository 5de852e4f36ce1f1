//! What all HTTP clients of the host have in common: they say who they are, and follow, repeat and tell nothing by
//! themselves. Where each may go and how long it may take is its service's.

use std::error::Error;

use reqwest::{Client, ClientBuilder, redirect};

/// A client in the making.
pub(crate) fn builder() -> ClientBuilder {
    // Refused when there is a provider already, which is then as good: TLS is set up once for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("strata-host/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
}

/// An error with its causes, which the HTTP library keeps apart.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
