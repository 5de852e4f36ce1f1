//! `batchEmbedContents` of Gemini.

use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{MODEL_PREFIX, method_url};
use crate::models::EmbedRequest;
use crate::models::protocol::{EmbeddingProtocol, IndexedVector, ParsedEmbeddings};
use crate::models::tokens::first_count;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct BatchEmbedContents;

#[derive(Deserialize)]
struct EmbeddingList {
    embeddings: Vec<ContentEmbedding>,
    #[serde(default, rename = "usageMetadata")]
    usage: Value,
}

#[derive(Deserialize)]
struct ContentEmbedding {
    values: Vec<f32>,
}

impl EmbeddingProtocol for BatchEmbedContents {
    fn url(&self, base: &Url, model: &str) -> Url {
        method_url(base, model, "batchEmbedContents")
    }

    fn body(&self, model: &str, request: &EmbedRequest) -> Value {
        let model = model.strip_prefix(MODEL_PREFIX).unwrap_or(model);
        let mut requests = Vec::new();
        for text in &request.texts {
            let mut one = json!({
                "model": format!("{MODEL_PREFIX}{model}"),
                "content": { "parts": [{ "text": text }] },
            });
            if let Some(dimensions) = request.dimensions {
                one["outputDimensionality"] = dimensions.into();
            }
            requests.push(one);
        }
        json!({ "requests": requests })
    }

    fn parse(&self, bytes: &[u8]) -> serde_json::Result<ParsedEmbeddings> {
        let list: EmbeddingList = serde_json::from_slice(bytes)?;
        let vectors = list.embeddings.into_iter().map(|item| IndexedVector {
            index: None,
            components: item.values,
        });
        Ok(ParsedEmbeddings {
            vectors: vectors.collect(),
            model: None,
            input_tokens: first_count(&list.usage, &["/promptTokenCount", "/totalTokenCount"]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_a_request_of_its_own() {
        let request = EmbedRequest {
            model: None,
            texts: vec!["one".into()],
            dimensions: Some(3),
        };
        let expected = json!({ "requests": [{
            "model": "models/m", "content": { "parts": [{ "text": "one" }] }, "outputDimensionality": 3,
        }] });
        for model in ["m", "models/m"] {
            assert_eq!(BatchEmbedContents.body(model, &request), expected);
            let base = Url::parse("https://example.com").unwrap();
            let url = BatchEmbedContents.url(&base, model);
            assert_eq!(
                url.as_str(),
                "https://example.com/v1beta/models/m:batchEmbedContents"
            );
        }
    }

    #[test]
    fn vectors_are_read() {
        let parsed = BatchEmbedContents.parse(br#"{ "embeddings": [{ "values": [1, 2] }] }"#);
        let expected = ParsedEmbeddings {
            vectors: vec![IndexedVector {
                index: None,
                components: vec![1.0, 2.0],
            }],
            ..ParsedEmbeddings::default()
        };
        assert_eq!(parsed.unwrap(), expected);
        assert!(BatchEmbedContents.parse(b"{}").is_err());
    }
}
