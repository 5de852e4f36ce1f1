//! Conversions between the JSON texts of the component's interface and the author's types.

use crate::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Parses a text from the host. `what` describes it in the failure.
pub fn parse<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::error(format!("reading {what}: {error}")))
}

/// Parses a `config`. If it is absent (`null`), it is parsed as null, or as an empty object, which
/// is valid for a type whose fields all have defaults.
pub fn parse_config<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    let what = "the action's `config` in the team file";
    if text == "null" {
        return serde_json::from_str(text).or_else(|_| parse(what, "{}"));
    }
    parse(what, text)
}

/// Serialises a value for the host. `what` describes it in the failure.
pub fn write<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::error(format!("writing {what} as json: {error}")))
}

/// Serialises structured content. A value that is null in JSON, such as `()`, counts as none.
pub fn write_data<T: Serialize>(data: Option<T>) -> Result<Option<String>, Failure> {
    let text = data
        .map(|data| write("the action's data", &data))
        .transpose()?;
    Ok(text.filter(|text| text != "null"))
}
