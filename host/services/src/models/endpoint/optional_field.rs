//! Fields of requests that the host chooses and that not every endpoint or model knows. If one is
//! refused, the request is sent again without it or in another form, and so are later requests.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use strata_core::record::conversation::ToolChoice;

use crate::models::ModelRequest;
use crate::models::config::{ModelSettings, ProtocolName};
use crate::models::protocol::RequestBody;

/// A field that an endpoint may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OptionalField {
    /// Encrypted reasoning, which models that do not reason refuse.
    EncryptedReasoning,
    /// The choice of a tool by its name. Some endpoints know only the words `auto`, `none` and
    /// `required`, which is sent with this tool alone.
    NamedTool,
}

impl OptionalField {
    const ALL: [Self; 2] = [Self::EncryptedReasoning, Self::NamedTool];

    /// Returns its name in the body of a request.
    fn name(self) -> &'static str {
        match self {
            Self::EncryptedReasoning => "include",
            Self::NamedTool => "tool_choice",
        }
    }

    /// Returns what errors about it contain, in lower case: OpenAI's "Encrypted content is not
    /// supported with this model." with the parameter `include`, and LM Studio's "Invalid
    /// tool_choice type: 'object'."
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::EncryptedReasoning => &["include", "encrypted"],
            Self::NamedTool => &["tool_choice", "tool choice", "toolchoice"],
        }
    }
}

/// The fields that a request does not contain, because they were refused.
pub(super) type OmittedFields = BTreeSet<OptionalField>;

/// The fields that models have refused, by the providers' ids of the models.
#[derive(Debug, Default)]
pub(super) struct RefusedFields(Mutex<BTreeSet<(String, OptionalField)>>);

impl RefusedFields {
    /// Returns the fields that a model has refused.
    pub(super) fn of_model(&self, model: &str) -> OmittedFields {
        let refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_model = refused.iter().filter(|(name, _)| name == model);
        of_model.map(|(_, field)| *field).collect()
    }

    /// Notes that a model accepted a request without these fields after it had refused them.
    pub(super) fn add(&self, model: &str, omitted: &OmittedFields) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.extend(omitted.iter().map(|field| (model.to_owned(), *field)));
    }
}

/// Returns the request to write if these fields are omitted, or `None` if it stays as it is.
pub(super) fn without_named_tool(
    request: &ModelRequest,
    omitted: &OmittedFields,
) -> Option<ModelRequest> {
    let ToolChoice::Tool(name) = &request.tool_choice else {
        return None;
    };
    omitted.contains(&OptionalField::NamedTool).then(|| {
        let mut request = request.clone();
        let name = name.clone();
        request.tools.retain(|tool| tool.name == name);
        request.tool_choice = ToolChoice::Required;
        request
    })
}

/// Removes the omitted fields that have no other form.
pub(super) fn remove_omitted(body: &mut RequestBody, omitted: &OmittedFields) {
    if omitted.contains(&OptionalField::EncryptedReasoning) {
        body.remove(OptionalField::EncryptedReasoning.name());
    }
}

/// Returns the optional fields that a request contains, unless the operator has determined them.
pub(super) fn optional_fields(
    protocol: ProtocolName,
    request: &ModelRequest,
    settings: &ModelSettings,
    omitted: &OmittedFields,
) -> Vec<OptionalField> {
    let is_sent = |field: &OptionalField| match field {
        OptionalField::EncryptedReasoning => protocol == ProtocolName::Responses,
        OptionalField::NamedTool => {
            matches!(protocol, ProtocolName::OpenAi | ProtocolName::Responses)
                && matches!(request.tool_choice, ToolChoice::Tool(_))
        }
    };
    let is_own = |field: &OptionalField| {
        let name = field.name();
        !settings.options.contains_key(name) && !settings.without.iter().any(|it| it == name)
    };
    let fields = OptionalField::ALL.into_iter();
    fields
        .filter(|field| !omitted.contains(field) && is_sent(field) && is_own(field))
        .collect()
}

/// Returns which of these fields an error is about.
pub(super) fn refused_field(fields: &[OptionalField], error: &Value) -> Option<OptionalField> {
    let text = error.to_string().to_lowercase();
    let is_named = |field: &&OptionalField| field.words().iter().any(|word| text.contains(word));
    fields.iter().find(is_named).copied()
}
