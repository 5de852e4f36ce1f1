//! How providers are asked for vectors that stand for texts.

use reqwest::Url;
use serde_json::Value;

use crate::models::EmbedRequest;

/// The protocol of a provider that has vectors.
pub(in super::super) trait EmbeddingProtocol: Send + Sync {
    /// Returns the address to which a request is sent.
    fn url(&self, base: &Url, model: &str) -> Url;

    /// Returns the body of a request.
    fn body(&self, model: &str, request: &EmbedRequest) -> Value;

    /// Reads a response. Neither the vectors nor their order are checked.
    fn parse(&self, bytes: &[u8]) -> serde_json::Result<ParsedEmbeddings>;
}

/// The contents of a response.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct ParsedEmbeddings {
    /// The vectors, in the order in which the response contains them.
    pub(in super::super) vectors: Vec<IndexedVector>,
    /// The model that answered, if the response names it.
    pub(in super::super) model: Option<String>,
    /// The tokens of the texts, if the response tells them.
    pub(in super::super) input_tokens: Option<u64>,
}

/// A vector of a response.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct IndexedVector {
    /// The index of its text, from 0. `None` if the response leaves it out, because it keeps the order
    /// of the texts.
    pub(in super::super) index: Option<u64>,
    /// The components.
    pub(in super::super) components: Vec<f32>,
}

/// Returns the components of vectors in the order of their texts. Fails with the index of a text that
/// has no vector if the indexes are not those of all texts, each once: which vector belongs to which
/// text would be a guess.
pub(in super::super) fn order_vectors(vectors: Vec<IndexedVector>) -> Result<Vec<Vec<f32>>, usize> {
    if vectors.iter().all(|vector| vector.index.is_none()) {
        return Ok(vectors.into_iter().map(|v| v.components).collect());
    }
    let mut ordered = vec![None; vectors.len()];
    for IndexedVector { index, components } in vectors {
        let place = index.and_then(|index| ordered.get_mut(usize::try_from(index).ok()?));
        if let Some(place) = place {
            *place = Some(components);
        }
    }
    match ordered.iter().position(Option::is_none) {
        Some(text) => Err(text),
        None => Ok(ordered.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_one_vector() {
        let check = |indexes: &[Option<u64>], expected: Result<&[f32], usize>| {
            let vectors = indexes.iter().enumerate().map(|(at, index)| IndexedVector {
                index: *index,
                components: vec![at as f32],
            });
            let found = order_vectors(vectors.collect()).map(|vectors| vectors.concat());
            assert_eq!(found, expected.map(<[f32]>::to_vec), "{indexes:?}");
        };
        check(&[], Ok(&[]));
        check(&[None, None], Ok(&[0.0, 1.0]));
        check(&[Some(0), Some(1)], Ok(&[0.0, 1.0]));
        check(&[Some(2), Some(0), Some(1)], Ok(&[1.0, 2.0, 0.0]));
        check(&[Some(1), Some(1)], Err(0));
        check(&[Some(0), Some(0)], Err(1));
        check(&[Some(5), Some(0)], Err(1));
        check(&[Some(1), Some(2)], Err(0));
        check(&[Some(0), Some(u64::MAX)], Err(1));
        check(&[Some(0), None], Err(1));
        check(&[Some(1)], Err(0));
    }
}
