//! Types of fields of the file that are written and read with serde. `null` and a missing field are
//! equivalent, since files that somebody has edited have either.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use strata_core::record::host_call::{CallOutcome, FinishReason, HostCallKind, LostAnswerPolicy};
use strata_core::record::json;
use strata_core::record::json::Json;
use strata_core::record::money::Usd;

use super::located_value::{MAX_COUNT, MAX_SMALL_COUNT, WRAPPED_DEPTH};

/// Reads a field that may be `null`, which stands for the default.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a field that is a count.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    count_up_to(deserializer, MAX_COUNT)
}

/// Reads a field that is a count of attempts and the like.
pub(super) fn small_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    count_up_to(deserializer, MAX_SMALL_COUNT).map(|count| count as u32)
}

fn count_up_to<'de, D: Deserializer<'de>>(deserializer: D, max: u64) -> Result<u64, D::Error> {
    let count: u64 = or_default(deserializer)?;
    if count > max {
        return Err(D::Error::custom(format!(
            "{count} is not a whole number from 0 to {max}"
        )));
    }
    Ok(count)
}

/// A value with a name in the file.
pub(super) trait NamedValue: Copy {
    /// Returns the name.
    fn file_name(self) -> &'static str;
    /// Returns the value with this name.
    fn from_file_name(name: &str) -> Option<Self>;
}

impl NamedValue for HostCallKind {
    fn file_name(self) -> &'static str {
        self.name()
    }

    fn from_file_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl NamedValue for CallOutcome {
    fn file_name(self) -> &'static str {
        self.name()
    }

    fn from_file_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

impl NamedValue for FinishReason {
    fn file_name(self) -> &'static str {
        self.name()
    }

    fn from_file_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|finish| finish.name() == name)
    }
}

impl NamedValue for LostAnswerPolicy {
    fn file_name(self) -> &'static str {
        self.name()
    }

    fn from_file_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// A field that holds the name of a value.
#[derive(Clone, Copy, Default)]
pub(super) struct Keyword<T>(pub T);

impl<T: NamedValue> Serialize for Keyword<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.file_name())
    }
}

impl<'de, T: NamedValue> Deserialize<'de> for Keyword<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        T::from_file_name(&name).map(Self).ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            D::Error::custom(format!(
                "`{shown}` is none of the words that are known here"
            ))
        })
    }
}

/// An amount of money in dollars. It is exact up to some thousands.
#[derive(Clone, Copy, Default)]
pub(super) struct Dollars(pub Usd);

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.to_dollars())
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let amount = f64::deserialize(deserializer)?;
        if amount >= 0.0 {
            Ok(Self(Usd::from_dollars(amount)))
        } else {
            Err(D::Error::custom(format!(
                "{amount} is not an amount of money"
            )))
        }
    }
}

/// A JSON document that the host may have wrapped after a guest nested it as deep as allowed.
pub(super) struct WrappedDocument<'a>(pub Cow<'a, Json>);

impl Default for WrappedDocument<'_> {
    fn default() -> Self {
        Self(Cow::Owned(Json::null()))
    }
}

impl Serialize for WrappedDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WrappedDocument<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if json::depth(&value) > WRAPPED_DEPTH {
            return Err(D::Error::custom(format!(
                "it is nested deeper than {WRAPPED_DEPTH} levels"
            )));
        }
        Ok(Self(Cow::Owned(Json::from(value))))
    }
}
