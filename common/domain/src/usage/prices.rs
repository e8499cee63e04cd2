//! Completion prices by token kind.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Microcents, is_default};

/// The prices of a model in cents: per million tokens of each kind, and per thousand images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrices {
    /// Prompt tokens of no other kind.
    pub input: u32,
    /// Prompt tokens read from the provider's cache.
    pub cached_input: u32,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u32,
    /// Completion tokens of no other kind.
    pub output: u32,
    /// Completion tokens used for reasoning.
    pub reasoning: u32,
    /// A thousand images of the prompt, in addition to their tokens.
    pub image: u32,
}

/// A completion's tokens by kind, as reported by its provider. The kinds of the prompt are disjoint, as are the
/// completion's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenKinds {
    /// Prompt tokens read from the provider's cache; `None` if not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Prompt tokens written to the provider's cache; `None` if not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Completion tokens used for reasoning; `None` if not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Images in the prompt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub images: u64,
}

/// Token kinds with their own price that the provider did not report: charged at the higher price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AssumedKinds(u8);

/// The cost of a completion, and which part of it is assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletionCharge {
    /// The price.
    pub cost: Microcents,
    /// The kinds that were charged at the higher price.
    pub assumed: AssumedKinds,
}

impl ModelPrices {
    /// Creates the prices of a model whose provider charges only for input and output.
    pub const fn flat(input: u32, output: u32) -> Self {
        Self { input, cached_input: input, cache_write: input, output, reasoning: output, image: 0 }
    }

    /// Returns the maximum cost of a completion with these numbers of tokens and images, whatever the token kinds.
    pub fn max_cost(&self, prompt: u64, completion: u64, images: u64) -> Microcents {
        let input = self.input.max(self.cached_input).max(self.cache_write);
        let output = self.output.max(self.reasoning);
        Microcents::for_tokens(prompt, input, completion, output).plus(self.images(images))
    }

    /// Returns the cost of a completion. Each token is charged once, by its kind; tokens of unreported kinds are
    /// charged at the highest price that they may have.
    pub fn charge(&self, prompt: u64, completion: u64, kinds: &TokenKinds) -> CompletionCharge {
        let kinds = kinds.clamped_to(prompt, completion);
        let (cached, written) = (kinds.cached.unwrap_or(0), kinds.cache_write.unwrap_or(0));
        let thoughts = kinds.reasoning.unwrap_or(0);
        let (rest_of_prompt, rest_of_answer) = (prompt - cached - written, completion - thoughts);
        let (mut input, mut output, mut assumed) = (self.input, self.output, 0);
        if rest_of_prompt > 0 {
            for (count, price, kind) in [
                (kinds.cached, self.cached_input, AssumedKinds::CACHED),
                (kinds.cache_write, self.cache_write, AssumedKinds::WRITE),
            ] {
                if count.is_none() && price != self.input {
                    (input, assumed) = (input.max(price), assumed | kind);
                }
            }
        }
        if rest_of_answer > 0 && kinds.reasoning.is_none() && self.reasoning != self.output {
            (output, assumed) = (output.max(self.reasoning), assumed | AssumedKinds::REASONING);
        }
        let cost = Microcents::for_tokens(rest_of_prompt, input, rest_of_answer, output)
            .plus(Microcents::for_tokens(cached, self.cached_input, written, self.cache_write))
            .plus(Microcents::for_tokens(0, 0, thoughts, self.reasoning))
            .plus(self.images(kinds.images));
        CompletionCharge { cost, assumed: AssumedKinds(assumed) }
    }

    fn images(&self, images: u64) -> Microcents {
        // A cent per thousand images is a thousand millionths of a cent per image.
        Microcents(images.saturating_mul(u64::from(self.image) * 1_000))
    }
}

impl TokenKinds {
    /// Returns the kinds, cut to the tokens of the prompt and the completion. Cached tokens are cut last.
    #[must_use]
    pub fn clamped_to(&self, prompt: u64, completion: u64) -> Self {
        let cached = self.cached.map(|cached| cached.min(prompt));
        let left = prompt - cached.unwrap_or(0);
        Self {
            cached,
            cache_write: self.cache_write.map(|written| written.min(left)),
            reasoning: self.reasoning.map(|thoughts| thoughts.min(completion)),
            images: self.images,
        }
    }
}

impl AssumedKinds {
    const CACHED: u8 = 1;
    const WRITE: u8 = 2;
    const REASONING: u8 = 4;
    /// The bit of each kind, and its name, which is that of its price.
    const NAMES: [(u8, &'static str); 3] =
        [(Self::CACHED, "cached_input"), (Self::WRITE, "cache_write"), (Self::REASONING, "reasoning")];

    /// Returns whether nothing is assumed.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the names of the kinds.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| name)
    }

    /// Returns the number stored in usage records.
    pub fn number(self) -> i16 {
        self.0.into()
    }
}

/// Ignores kinds that only a later version knows.
impl From<i16> for AssumedKinds {
    fn from(number: i16) -> Self {
        let known = Self::NAMES.into_iter().filter(|(bit, _)| number & i16::from(*bit) != 0);
        Self(known.fold(0, |all, (bit, _)| all | bit))
    }
}

impl Serialize for AssumedKinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

/// Ignores names that only a later version knows.
impl<'de> Deserialize<'de> for AssumedKinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<Cow<'_, str>>::deserialize(deserializer)?;
        let known = Self::NAMES.into_iter().filter(|(_, name)| names.iter().any(|given| given == name));
        Ok(Self(known.fold(0, |all, (bit, _)| all | bit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cached tokens are cheaper, written ones more expensive, reasoning tokens the most expensive.
    const PRICES: ModelPrices =
        ModelPrices { input: 100, cached_input: 10, cache_write: 125, output: 400, reasoning: 600, image: 50 };

    fn kinds(cached: Option<u64>, cache_write: Option<u64>, reasoning: Option<u64>) -> TokenKinds {
        TokenKinds { cached, cache_write, reasoning, images: 0 }
    }

    #[test]
    fn a_token_is_charged_once_by_its_kind() {
        let all = kinds(Some(600), Some(300), Some(40));
        let charge = PRICES.charge(1_000, 50, &all);
        let expected = 600 * 10 + 300 * 125 + 100 * 100 + 40 * 600 + 10 * 400;
        assert_eq!((charge.cost, charge.assumed), (Microcents(expected), AssumedKinds::default()));
        let with_images = TokenKinds { images: 3, ..all };
        assert_eq!(PRICES.charge(1_000, 50, &with_images).cost, Microcents(expected + 3 * 50_000));
        // Flat prices make no difference between kinds, and assume nothing.
        for kinds in [all, TokenKinds::default()] {
            let charge = ModelPrices::flat(15, 45).charge(1_000, 50, &kinds);
            assert_eq!(
                (charge.cost, charge.assumed),
                (Microcents::for_tokens(1_000, 15, 50, 45), AssumedKinds::default())
            );
        }
    }

    #[test]
    fn a_kind_that_is_not_reported_is_charged_at_the_dearer_price_and_named() {
        let of = |kinds: TokenKinds| {
            let CompletionCharge { cost, assumed } = PRICES.charge(1_000, 50, &kinds);
            (cost.0, assumed.names().collect::<Vec<_>>().join(","))
        };
        assert_eq!(of(kinds(None, Some(0), Some(0))), (1_000 * 100 + 50 * 400, "cached_input".into()));
        assert_eq!(of(kinds(Some(600), None, Some(0))), (600 * 10 + 400 * 125 + 50 * 400, "cache_write".into()));
        assert_eq!(of(kinds(Some(0), Some(0), None)), (1_000 * 100 + 50 * 600, "reasoning".into()));
        assert_eq!(of(TokenKinds::default()).0, PRICES.max_cost(1_000, 50, 0).0);
        assert_eq!(of(TokenKinds::default()).1, "cached_input,cache_write,reasoning");
        // Without tokens, no kind is assumed.
        assert!(PRICES.charge(0, 0, &TokenKinds::default()).assumed.is_empty());
    }

    #[test]
    fn a_report_that_contradicts_itself_never_costs_more_than_its_tokens_can() {
        for prompt in [0, 1, 7, 1_000] {
            for completion in [0, 1, 50] {
                for cached in [None, Some(0), Some(5), Some(u64::MAX)] {
                    for written in [None, Some(0), Some(5), Some(u64::MAX)] {
                        for thoughts in [None, Some(0), Some(60)] {
                            let kinds = kinds(cached, written, thoughts);
                            let cost = PRICES.charge(prompt, completion, &kinds).cost;
                            assert!(cost <= PRICES.max_cost(prompt, completion, 0), "{prompt} {completion} {kinds:?}");
                            assert!(cost >= Microcents::for_tokens(prompt, 10, completion, 400), "{kinds:?}");
                        }
                    }
                }
            }
        }
        assert_eq!(PRICES.charge(u64::MAX, 0, &TokenKinds::default()).cost, Microcents(u64::MAX));
    }

    #[test]
    fn what_is_assumed_is_read_as_another_version_wrote_it() {
        let assumed = PRICES.charge(1, 1, &TokenKinds::default()).assumed;
        let json = serde_json::to_string(&assumed).unwrap();
        assert_eq!(json, r#"["cached_input","cache_write","reasoning"]"#);
        assert_eq!(serde_json::from_str::<AssumedKinds>(&json).unwrap(), assumed);
        assert_eq!(serde_json::from_str::<AssumedKinds>(r#"["video","cache_write"]"#).unwrap(), AssumedKinds::from(2));
        assert_eq!(AssumedKinds::from(assumed.number() | 64), assumed);
    }
}
