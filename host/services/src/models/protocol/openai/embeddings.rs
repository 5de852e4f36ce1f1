//! `/embeddings`, which OpenAI and the servers that are compatible with it have.

use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::models::EmbedRequest;
use crate::models::protocol::append_path;
use crate::models::protocol::{EmbeddingProtocol, IndexedVector, ParsedEmbeddings};
use crate::models::tokens::first_count;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct OpenAiEmbeddings;

#[derive(Deserialize)]
struct EmbeddingReply {
    data: Vec<EmbeddingItem>,
    model: Option<String>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    /// The index of the text. Servers that leave it out keep the order.
    index: Option<u64>,
    embedding: Vec<f32>,
}

impl EmbeddingProtocol for OpenAiEmbeddings {
    fn url(&self, base: &Url, _model: &str) -> Url {
        append_path(base, &["embeddings"])
    }

    fn body(&self, model: &str, request: &EmbedRequest) -> Value {
        let mut body =
            json!({ "model": model, "input": request.texts, "encoding_format": "float" });
        if let Some(dimensions) = request.dimensions {
            body["dimensions"] = dimensions.into();
        }
        body
    }

    fn parse(&self, bytes: &[u8]) -> serde_json::Result<ParsedEmbeddings> {
        let list: EmbeddingReply = serde_json::from_slice(bytes)?;
        let vectors = list.data.into_iter().map(|item| IndexedVector {
            index: item.index,
            components: item.embedding,
        });
        Ok(ParsedEmbeddings {
            vectors: vectors.collect(),
            model: list.model,
            input_tokens: first_count(&list.usage, &["/prompt_tokens", "/total_tokens"]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_model_the_texts_and_the_components() {
        let mut request = EmbedRequest {
            model: Some("name".into()),
            texts: vec!["one".into(), "two".into()],
            dimensions: None,
        };
        let body = OpenAiEmbeddings.body("id", &request);
        let expected =
            json!({ "model": "id", "input": ["one", "two"], "encoding_format": "float" });
        assert_eq!(body, expected);
        request.dimensions = Some(3);
        assert_eq!(OpenAiEmbeddings.body("id", &request)["dimensions"], 3);
        let base = Url::parse("http://localhost:8000/v1").unwrap();
        let url = OpenAiEmbeddings.url(&base, "id");
        assert_eq!(url.as_str(), "http://localhost:8000/v1/embeddings");
    }

    #[test]
    fn vectors_are_read_with_their_indexes() {
        let response = r#"{ "object": "list", "model": "m", "usage": { "prompt_tokens": 5, "total_tokens": 5 },
            "data": [{ "index": 1, "embedding": [3, 4.5] }, { "index": 0, "embedding": [1, 2] }] }"#;
        let parsed = OpenAiEmbeddings.parse(response.as_bytes()).unwrap();
        let expected = ParsedEmbeddings {
            vectors: vec![
                IndexedVector {
                    index: Some(1),
                    components: vec![3.0, 4.5],
                },
                IndexedVector {
                    index: Some(0),
                    components: vec![1.0, 2.0],
                },
            ],
            model: Some("m".into()),
            input_tokens: Some(5),
        };
        assert_eq!(parsed, expected);
        let short = OpenAiEmbeddings.parse(br#"{ "data": [{ "embedding": [1] }] }"#);
        let expected = IndexedVector {
            index: None,
            components: vec![1.0],
        };
        assert_eq!(short.unwrap().vectors, [expected]);
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{ "data": [{ "embedding": ["x"] }] }"#,
            r#"{ "data": [{ "index": -1, "embedding": [1] }] }"#,
        ] {
            assert!(OpenAiEmbeddings.parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
