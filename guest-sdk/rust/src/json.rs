//! JSON at the border: texts become values of the author's types and back.

use crate::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Parses what comes from the host. `what` names it in the failure.
pub fn parse<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::error(format!("reading {what}: {error}")))
}

/// Parses a `config`. One that is absent (`null`) may also stand for a table whose keys all have defaults.
pub fn parse_config<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    let what = "the action's `config` in the team file";
    if text == "null" {
        return serde_json::from_str(text).or_else(|_| parse(what, "{}"));
    }
    parse(what, text)
}

/// Writes what goes to the host.
pub fn write<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::error(format!("writing {what} as json: {error}")))
}

/// Writes structured content; `()` and other nothings count as none.
pub fn write_data<T: Serialize>(data: Option<T>) -> Result<Option<String>, Failure> {
    let text = data
        .map(|data| write("the action's data", &data))
        .transpose()?;
    Ok(text.filter(|text| text != "null"))
}
