//! Vectors that stand for texts: requests for them, and what providers return.

mod outbound;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strata_base::files::sha256::sha256;
use strata_core::record::conversation::TokenUsage;

use super::config::{ModelNames, ModelTarget};
use super::error_text::invalid;
use super::tokens::estimate_tokens;
use crate::gateway::HostError;

/// The number of components of a scripted vector if the request does not choose one.
const SCRIPTED_COMPONENTS: u32 = 16;
/// The maximum number of components of a scripted vector. No model has more.
const MAX_SCRIPTED_COMPONENTS: u32 = 4096;

/// A request for vectors that stand for texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedRequest {
    /// The model. `None` selects the role's model, or the team's.
    pub model: Option<String>,
    /// The texts.
    pub texts: Vec<String>,
    /// The number of components of each vector, if the guest chose one.
    pub dimensions: Option<u32>,
}

/// Vectors that stand for texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Embeddings {
    /// One vector for each text, in the order of the texts. They are recorded in Base64, which is
    /// exact and less than half as long as numbers.
    #[serde(serialize_with = "pack_vectors", deserialize_with = "unpack_vectors")]
    pub vectors: Vec<Vec<f32>>,
    /// The model that answered.
    pub model: String,
    /// The tokens of the texts.
    pub input_tokens: u64,
}

/// A request for vectors with the model that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedCall {
    /// The model.
    pub target: ModelTarget,
    /// The request.
    pub request: EmbedRequest,
}

impl EmbedRequest {
    /// Returns the approximate number of tokens of the texts.
    pub(super) fn estimated_tokens(&self) -> u64 {
        estimate_tokens(self.texts.iter().map(String::as_str))
    }
}

impl EmbedCall {
    /// Returns a request with the model that it is for. `role_model` is the model for a request that
    /// names none.
    pub fn new(names: &ModelNames, role_model: Option<&str>, request: EmbedRequest) -> Self {
        Self {
            target: names.resolve(request.model.as_deref(), role_model),
            request,
        }
    }

    /// Returns the text by which recorded calls are matched.
    pub fn identity(&self) -> String {
        let ModelTarget { name, id } = &self.target;
        let EmbedRequest {
            texts, dimensions, ..
        } = &self.request;
        serde_json::to_string(&("embed", name, id, texts, dimensions)).unwrap_or_default()
    }

    /// Returns what the call is expected to use.
    pub(super) fn expected_usage(&self) -> TokenUsage {
        TokenUsage {
            input: self.request.estimated_tokens(),
            ..TokenUsage::default()
        }
    }
}

/// Returns the error for a provider that has no vectors.
pub(super) fn unsupported_error(provider: &str) -> HostError {
    invalid(format!(
        "cannot embed: the provider `{provider}` has no embeddings; name a model of another one (`openai`, `gemini`, \
         or `scripted` for tests)"
    ))
}

/// Returns vectors of length 1 that depend on nothing but the texts, for tests: equal texts have equal
/// vectors, and others have no relation to each other.
pub(super) fn scripted_embeddings(
    request: &EmbedRequest,
    model: &str,
) -> Result<Embeddings, HostError> {
    let components = request.dimensions.unwrap_or(SCRIPTED_COMPONENTS);
    if components > MAX_SCRIPTED_COMPONENTS {
        return Err(invalid(format!(
            "cannot embed: a scripted vector has at most {MAX_SCRIPTED_COMPONENTS} components, not {components}"
        )));
    }
    let vectors = request.texts.iter();
    Ok(Embeddings {
        vectors: vectors
            .map(|text| scripted_vector(text, components as usize))
            .collect(),
        model: model.to_owned(),
        input_tokens: request.estimated_tokens(),
    })
}

fn scripted_vector(text: &str, components: usize) -> Vec<f32> {
    let mut vector = Vec::with_capacity(components);
    let mut block = 0_u32;
    while vector.len() < components {
        for bytes in sha256(format!("{block} {text}")).chunks_exact(2) {
            let number = i16::from_le_bytes([bytes[0], bytes[1]]);
            vector.push(f32::from(number) + 0.5);
        }
        block += 1;
    }
    vector.truncate(components);
    let length = vector.iter().map(|c| c * c).sum::<f32>().sqrt();
    vector.iter().map(|component| component / length).collect()
}

fn pack_vectors<S: Serializer>(vectors: &[Vec<f32>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(vectors.iter().map(|vector| {
        let bytes: Vec<u8> = vector.iter().flat_map(|c| c.to_le_bytes()).collect();
        STANDARD.encode(bytes)
    }))
}

fn unpack_vectors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<f32>>, D::Error> {
    let mut vectors = Vec::new();
    for text in Vec::<String>::deserialize(deserializer)? {
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        let components = bytes.chunks_exact(size_of::<f32>());
        if !components.remainder().is_empty() {
            return Err(D::Error::custom("a vector ends within a component"));
        }
        let components = components.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        vectors.push(components.collect());
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(texts: &[&str], dimensions: Option<u32>) -> EmbedRequest {
        EmbedRequest {
            model: None,
            texts: texts.iter().map(ToString::to_string).collect(),
            dimensions,
        }
    }

    #[test]
    fn scripted_vectors_depend_on_the_text_and_have_the_length_one() {
        let embeddings =
            scripted_embeddings(&request(&["a", "b", "a", ""], Some(40)), "m").unwrap();
        let [a, b, again, empty] = &embeddings.vectors[..] else {
            panic!("{embeddings:?}");
        };
        assert_eq!(a, again);
        assert_ne!(a, b);
        for vector in [a, b, empty] {
            let length: f32 = vector.iter().map(|c| c * c).sum();
            assert!(
                vector.len() == 40 && (length - 1.0).abs() < 1e-5,
                "{length}"
            );
        }
        let usual = scripted_embeddings(&request(&["a"], None), "m").unwrap();
        assert_eq!(usual.vectors[0].len(), SCRIPTED_COMPONENTS as usize);
        assert!(scripted_embeddings(&request(&["a"], Some(5000)), "m").is_err());
    }

    #[test]
    fn vectors_are_recorded_exactly() {
        let before = Embeddings {
            vectors: vec![vec![0.1, -1.5e-30, f32::MIN_POSITIVE], vec![]],
            model: "m".into(),
            input_tokens: 3,
        };
        let recorded = serde_json::to_value(&before).unwrap();
        assert_eq!(
            recorded["vectors"],
            serde_json::json!(["zczMPZBj840AAIAA", ""])
        );
        assert_eq!(
            serde_json::from_value::<Embeddings>(recorded).unwrap(),
            before
        );
        for damaged in ["AAAA", "?"] {
            let damaged =
                serde_json::json!({ "vectors": [damaged], "model": "", "input_tokens": 0 });
            assert!(serde_json::from_value::<Embeddings>(damaged).is_err());
        }
    }

    #[test]
    fn requests_are_distinguished_by_model_texts_and_components() {
        let names = ModelNames::default();
        let identity = |model: Option<&str>, request: EmbedRequest| {
            EmbedCall::new(&names, model, request).identity()
        };
        let plain = identity(None, request(&["a"], None));
        assert_eq!(plain, identity(None, request(&["a"], None)));
        assert_ne!(plain, identity(Some("m"), request(&["a"], None)));
        assert_ne!(plain, identity(None, request(&["a"], Some(3))));
        assert_ne!(plain, identity(None, request(&["a", ""], None)));
    }
}
