//! Reads the keys of a model's endpoint: its address, its key, retries and the timeout.

use strata_services::endpoint;
use strata_services::models::config::{Endpoint, ProtocolName};

use crate::address::read_address;
use crate::grants::variables::check_name;
use crate::schema::kind;
use crate::table::{TomlItem, TomlTable};

/// The largest number of retries of a request.
const MAX_RETRIES: u64 = 100;

/// The keys of an endpoint.
pub(super) struct EndpointKeys<'a> {
    base_url: Option<TomlItem<'a>>,
    api_key: Option<TomlItem<'a>>,
    retries: Option<TomlItem<'a>>,
    timeout: Option<TomlItem<'a>>,
}

impl<'a> EndpointKeys<'a> {
    pub(super) const NAMES: [&'static str; 4] = ["base_url", "api_key", "retries", "timeout"];

    pub(super) fn look_up(table: &TomlTable<'a>) -> Self {
        Self {
            base_url: table
                .key(
                    "base_url",
                    "The address of the endpoint, without the path of the protocol: what comes before \
                     `/chat/completions` or `/responses` (both with `/v1`), `/v1/messages`, `/v1beta/models`. Without \
                     it, that of the provider itself. In a query only `api-version` may be there.",
                )
                .value(kind::url),
            api_key: table
                .key(
                    "api_key",
                    "Where the key of the endpoint is. It is never written into a team file.",
                )
                .table_item(read_key_variable),
            retries: table
                .key(
                    "retries",
                    "How often the endpoint is asked again after a transient failure, or after a reply that does not \
                     match its schema.",
                )
                .default(Endpoint::DEFAULT_RETRIES)
                .value(|| kind::integer(0..=MAX_RETRIES)),
            timeout: table
                .key("timeout", "How long one request to the endpoint may take.")
                .default(kind::written_duration(Endpoint::DEFAULT_TIMEOUT))
                .value(|| kind::duration(kind::SHORTEST)),
        }
    }

    /// Reports the keys, because the provider has no endpoint.
    pub(super) fn reject(&self, table: &TomlTable<'_>) {
        let items = [&self.base_url, &self.api_key, &self.retries, &self.timeout];
        for (name, item) in Self::NAMES.into_iter().zip(items) {
            let providers = "providers with an endpoint, such as `openai`";
            super::reject_key_of_other_provider(table, name, item.as_ref(), providers);
        }
    }

    pub(super) fn read(&self, protocol: ProtocolName) -> Option<Endpoint> {
        let api_key = self.api_key.as_ref().and_then(read_api_key);
        let base_url = match &self.base_url {
            None => Some(protocol.default_base_url().to_owned()),
            Some(item) => self.read_base_url(item, protocol),
        };
        let retries = self
            .retries
            .as_ref()
            .and_then(|item| item.integer(0..=MAX_RETRIES));
        let timeout = self.timeout.as_ref().and_then(|item| {
            let timeout = item.duration()?;
            if timeout.is_zero() {
                item.reject(
                    "`timeout` cannot be zero",
                    "no request could be answered; leave the key out for the default",
                );
            }
            Some(timeout)
        });
        Some(Endpoint {
            protocol,
            base_url: base_url?,
            api_key_env: api_key,
            retries: retries.map_or(Endpoint::DEFAULT_RETRIES, |retries| retries as u32),
            timeout: timeout.unwrap_or(Endpoint::DEFAULT_TIMEOUT),
        })
    }

    fn read_base_url(&self, item: &TomlItem<'_>, protocol: ProtocolName) -> Option<String> {
        let found = read_address(item, |text| endpoint::model_base(text, protocol))?;
        if let Some(key) = &self.api_key
            && !key.is_text()
            && !endpoint::may_receive_keys(&found.url)
        {
            let why = "keys are sent over https, or to a machine that is named by its address";
            key.reject(
                format!("`api_key` cannot be sent to `{}`", found.text.value),
                why,
            );
        }
        Some(found.text.value.trim_end_matches('/').to_owned())
    }
}

fn read_api_key(item: &TomlItem<'_>) -> Option<String> {
    if item.is_text() {
        let message = "a key is never written into a team file";
        item.reject_secret(
            message,
            "name the variable that holds it: `{ env = \"OPENAI_API_KEY\" }`",
        );
        return None;
    }
    read_key_variable(&item.table("`api_key`")?)
}

fn read_key_variable(table: &TomlTable<'_>) -> Option<String> {
    let name = table
        .key("env", "The environment variable that holds the key.")
        .required()
        .value(kind::variable)?
        .text()?;
    check_name(table, &name);
    Some(name.value)
}
