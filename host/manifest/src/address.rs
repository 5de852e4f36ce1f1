//! Reads the addresses of services.

use reqwest::Url;
use strata_services::endpoint::InvalidAddress;

use super::table::{Located, TomlItem};

/// The address of a service.
pub(super) struct Address {
    /// The address as it is written.
    pub(super) text: Located<String>,
    pub(super) url: Url,
}

/// Reads an address that `parse` accepts.
pub(super) fn read_address(
    item: &TomlItem<'_>,
    parse: impl Fn(&str) -> Result<Url, InvalidAddress>,
) -> Option<Address> {
    let text = item.text()?;
    match parse(&text.value) {
        Ok(url) => Some(Address { text, url }),
        Err(InvalidAddress {
            display_text: shown,
            problem,
            hint,
        }) => {
            let message = format!("`{shown}` cannot be called: {problem}");
            if shown == text.value {
                item.reject(message, hint.as_str())
            } else {
                item.reject_secret(message, hint.as_str())
            }
            None
        }
    }
}
