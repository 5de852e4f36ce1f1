//! What requests use up, in tokens: as the endpoint counts them, or about, where it does not.

use super::Request;

/// How many characters make a token, roughly, in English text.
const CHARS_PER_TOKEN: usize = 4;

/// A reply of usual length, in tokens.
const USUAL_TOKENS: u32 = 1024;

/// No reply is taken for longer, whatever length the request allows: no model writes as much in one go.
const MOST_TOKENS: u32 = 1 << 18;

/// How many tokens a request has, and what was answered.
pub type Tokens = (u32, u32);

/// Roughly how many tokens these texts have.
pub(super) fn estimate<'a>(texts: impl IntoIterator<Item = &'a str>) -> u32 {
    let chars: usize = texts.into_iter().map(|t| t.chars().count()).sum();
    u32::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u32::MAX)
}

/// How many tokens a request has, and its reply at most.
pub(super) fn expected(request: &Request) -> Tokens {
    (estimate(request.texts()), request.max_tokens.unwrap_or(USUAL_TOKENS).min(MOST_TOKENS))
}

/// What a request without a reply used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Used {
    /// Nothing, as far as can be known.
    Nothing,
    /// As many tokens as the endpoint says: of the request, and of what it answered.
    Tokens(u32, u32),
    /// The endpoint may be at work still, or was when its reply broke off: as much as was held back for it.
    Unknown,
}

impl Used {
    /// The tokens of the request, and of what was answered.
    pub(super) fn tokens(self, request: &Request) -> Tokens {
        match self {
            Self::Nothing => (0, 0),
            Self::Tokens(input, output) => (input, output),
            Self::Unknown => expected(request),
        }
    }

    /// Both.
    pub(super) fn and(self, other: Self, request: &Request) -> Self {
        match (self, other) {
            (Self::Nothing, used) | (used, Self::Nothing) => used,
            _ => {
                let (one, two) = (self.tokens(request), other.tokens(request));
                Self::Tokens(one.0.saturating_add(two.0), one.1.saturating_add(two.1))
            }
        }
    }
}
