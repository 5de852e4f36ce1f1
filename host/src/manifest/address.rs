//! Reads the addresses of services.

use super::table::{Located, TomlItem};
use crate::services::endpoint::{self, InvalidAddress, ServiceKind};

/// Reads the URL of a service.
pub(super) fn read_url(item: &TomlItem<'_>, service: ServiceKind) -> Option<Located<String>> {
    let text = item.text()?;
    match endpoint::parse_address(&text.value, service) {
        Ok(_) => Some(text),
        Err(InvalidAddress {
            display_text: shown,
            problem,
            hint,
        }) => {
            let message = format!("`{shown}` cannot be called: {problem}");
            if shown == text.value {
                item.reject(message, hint)
            } else {
                item.reject_secret(message, hint)
            }
            None
        }
    }
}
