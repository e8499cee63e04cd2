//! Rewrites a non-streaming completion for the client.

mod embeddings;
mod stream;

use bytes::{Bytes, BytesMut};
use config::models::{Model, ModelRoute};
use domain::usage::Ending;
use gateway_request::models::ServedModel;
use openai::{
    dialect, json,
    usage::TokenUsage,
    usage_report::{self, CostFields, ExpectedUsage},
};

pub use self::{embeddings::encode_base64, stream::to_stream};

struct AnswerFields<'t> {
    model: &'t Model,
    expected: &'t ExpectedUsage,
    choices: Option<&'t [u8]>,
    usage: Option<TokenUsage>,
    /// Whether the last `usage` is valid: if a field occurs twice, clients use the last one.
    is_usage_shown: bool,
    is_error: bool,
}

impl<'t> AnswerFields<'t> {
    fn new(model: &'t Model, expected: &'t ExpectedUsage) -> Self {
        Self { model, expected, choices: None, usage: None, is_usage_shown: false, is_error: false }
    }

    fn read(&mut self, name: &[u8], value: &'t [u8]) {
        match name {
            b"usage" => {
                let reported =
                    usage_report::parse_provider_usage(value, &self.model.provider.usage, self.expected.images);
                self.is_usage_shown = reported.is_some();
                self.usage = usage_report::merge_reports(self.usage.take(), reported);
            }
            b"choices" => self.choices = Some(value),
            b"error" => self.is_error |= value != b"null",
            _ => {}
        }
    }

    /// Returns the reported usage, or an estimate if it is missing or has no completion tokens for the words.
    fn usage(&self) -> TokenUsage {
        let expected = self.expected;
        let word_bytes = || usage_report::word_bytes(self.choices.unwrap_or_default());
        match &self.usage {
            Some(usage) if usage.completion > 0 || word_bytes() == 0 => *usage,
            Some(usage) => expected.estimate_with_prompt(usage, usage_report::estimate_completion(word_bytes())),
            None => expected.estimate(usage_report::estimate_completion(word_bytes())),
        }
    }

    /// Returns whether the answer has no choices, or only ones without words of which a content filter ended one.
    fn is_empty(&self) -> bool {
        let choices = self.choices.unwrap_or_default();
        let is_without_choices = json::array_elements(choices).is_none_or(|mut choices| choices.next().is_none());
        is_without_choices || (usage_report::is_filtered(choices) && usage_report::word_bytes(choices) == 0)
    }

    fn is_completion(&self) -> bool {
        !self.is_error && self.choices.is_some_and(|choices| choices.starts_with(b"["))
    }
}

/// The reason that a provider's whole answer cannot be rewritten for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerError {
    /// The body is not a JSON object, reports an error, or lacks the list that holds the answer.
    NoCompletion,
    /// The model wrote nothing; the reported usage.
    Empty(Option<TokenUsage>),
}

/// A provider's whole answer, rewritten for the client.
#[derive(Debug, PartialEq, Eq)]
pub struct RewrittenAnswer {
    /// The JSON text to send, in which the provider's own name of the model is replaced.
    pub body: Bytes,
    /// The tokens that the answer used, as the provider reported them or as estimated.
    pub usage: TokenUsage,
    /// How the model ended the answer; [`Ending::Stop`] if the answer does not say.
    pub ending: Ending,
}

pub(super) const TEXT_COMPLETION: &str = "\"text_completion\"";

pub(super) fn chunk_object(route: ModelRoute) -> &'static str {
    if route == ModelRoute::Completions { TEXT_COMPLETION } else { "\"chat.completion.chunk\"" }
}

/// Rewrites a provider's whole answer for `route`, with the gateway's name of the model, the cost, and an estimated
/// usage if the provider reports none.
pub fn rewrite(
    body: &[u8],
    model: &ServedModel,
    expected: &ExpectedUsage,
    route: ModelRoute,
) -> Result<RewrittenAnswer, AnswerError> {
    if route == ModelRoute::Embeddings {
        return embeddings::rewrite(body, model, expected);
    }
    let mut out = BytesMut::with_capacity(body.len() + limits::ADDED_BYTES);
    let (mut written, mut said) = (0, AnswerFields::new(&model.model, expected));
    let part = |range: std::ops::Range<usize>| body.get(range).unwrap_or_default();
    for field in json::fields(body) {
        let field = field.map_err(|_| AnswerError::NoCompletion)?;
        let name = field.name();
        if *name == *b"model" {
            out.extend_from_slice(part(written..field.value.start));
            out.extend_from_slice(model.id_json.as_bytes());
            written = field.value.end;
        }
        let rewritten = match (&*name, route) {
            (b"choices", ModelRoute::Completions) => dialect::to_text_choices(part(field.value.clone())),
            (b"choices", _) => dialect::flatten_choices(part(field.value.clone())),
            (b"object", ModelRoute::Completions) => Some(TEXT_COMPLETION.into()),
            _ => None,
        };
        if let Some(rewritten) = rewritten {
            out.extend_from_slice(part(written..field.value.start));
            out.extend_from_slice(&rewritten);
            written = field.value.end;
        }
        let value = field.value.clone();
        said.read(&name, part(field.value));
        if *name == *b"usage"
            && said.is_usage_shown
            && let Some(usage) = &said.usage
        {
            let cost = CostFields::for_usage(usage, &model.model);
            if model.model.provider.has_openai_usage {
                out.extend_from_slice(part(written..value.end - 1));
                out.extend_from_slice(format!("{cost}}}").as_bytes());
            } else {
                out.extend_from_slice(part(written..value.start));
                out.extend_from_slice(usage_report::to_json(usage, &cost).as_bytes());
            }
            written = value.end;
        }
    }
    out.extend_from_slice(part(written..body.len()));
    if !said.is_completion() {
        return Err(AnswerError::NoCompletion);
    }
    if said.is_empty() {
        return Err(AnswerError::Empty(said.usage));
    }
    let usage = said.usage();
    if !said.is_usage_shown || usage.is_estimated {
        out.truncate(out.trim_ascii_end().len() - 1);
        out.extend_from_slice(b",\"usage\":");
        out.extend_from_slice(usage_report::to_json(&usage, &CostFields::for_usage(&usage, &model.model)).as_bytes());
        out.extend_from_slice(b"}");
    }
    let ending = said.choices.and_then(usage_report::last_finish_reason).unwrap_or(Ending::Stop);
    Ok(RewrittenAnswer { body: out.freeze(), usage, ending })
}

/// Returns whether an answer merged from a stream is a completion.
pub fn is_completion(body: &[u8], model: &Model, expected: &ExpectedUsage) -> bool {
    let mut said = AnswerFields::new(model, expected);
    for field in json::fields(body) {
        let Ok(field) = field else { return false };
        said.read(&field.name(), body.get(field.value.clone()).unwrap_or_default());
    }
    said.is_completion() && !said.is_empty()
}

/// An incomplete answer.
pub struct PartialAnswer {
    /// The reported usage, or an estimate from the words received.
    usage: TokenUsage,
    /// Whether that is an estimate from words that may be incomplete.
    has_unread_words: bool,
}

impl PartialAnswer {
    /// Returns the usage, with at least the tokens of `unread` if words may be missing.
    pub fn usage_with_unread(&self, unread: &TokenUsage) -> TokenUsage {
        let completion = self.usage.completion.max(if self.has_unread_words { unread.completion } else { 0 });
        TokenUsage { completion, ..self.usage }
    }
}

/// Parses an incomplete answer of which `read` has arrived. Returns `None` if it is empty, an error, or JSON that is
/// not the beginning of a completion.
pub fn parse_partial(read: &[u8], model: &Model, expected: &ExpectedUsage) -> Option<PartialAnswer> {
    // The parser does not treat a truncated number as the end of the text, but as invalid.
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let number = read.iter().rev().take_while(|byte| is_of_number(byte)).count();
    let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(read.get(..read.len() - number)?);
    let is_cut = parsed.as_ref().is_err_and(serde_json::Error::is_eof);
    if (parsed.is_err() && !is_cut) || !read.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let (mut said, mut end, mut has_data) = (AnswerFields::new(model, expected), 0, false);
    for field in json::fields(read).map_while(Result::ok) {
        has_data |= *field.name() == *b"data";
        said.read(&field.name(), read.get(field.value.clone())?);
        end = field.whole.end;
    }
    let mut has_unread_words = said.choices.is_none();
    if is_cut {
        // The field in which it was cut off.
        let cut = read.get(end..)?.trim_ascii_start().get(1..).unwrap_or_default().trim_ascii_start();
        said.is_error |= cut.starts_with(b"\"error\"");
        if cut.starts_with(b"\"choices\"") {
            said.choices = Some(cut);
            has_unread_words = expected.choices > 1 || !has_message(cut);
        }
    } else if expected.choices == 0 && !has_data || expected.choices > 0 && !said.is_completion() {
        return None;
    }
    if said.is_error {
        return None;
    }
    let usage = said.usage();
    Some(PartialAnswer { usage, has_unread_words: has_unread_words && usage.is_estimated })
}

fn has_message(choices: &[u8]) -> bool {
    let at = choices.iter().position(|byte| *byte == b'{').unwrap_or(choices.len());
    let first = choices.get(at..).unwrap_or_default();
    json::fields(first).map_while(Result::ok).any(|field| *field.name() == *b"message")
}

#[cfg(test)]
mod tests {
    use config::{Gateway, models::ModelCatalog};

    use super::*;
    use gateway_request::models::ServedModels;

    const EXPECTED: ExpectedUsage = ExpectedUsage { prompt: 7, completion: 90, choices: 1, images: 0 };

    fn models() -> ServedModels {
        let config = Gateway { provider_url: Some("http://127.0.0.1:9".parse().unwrap()), ..Gateway::default() };
        ServedModels::new(&ModelCatalog::from_config(&config, |_| None).unwrap(), &config, None).unwrap()
    }

    #[test]
    fn a_whole_answer_becomes_a_stream_of_one_chunk_and_the_usage() {
        let body = "{\"id\":\"c1\",\n \"object\":\"chat.completion\",\"created\":5,\"model\":\"svc/qwen3-32b\",\"choices\":[\
            {\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"\\nhi\",\"tool_calls\":[{\"id\":\"a\",\
            \"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"index\":7}]},\"logprobs\":\
            {\"x\":1.250},\r\n\"finish_reason\":\"stop\"},{\"index\":1}],\"usage\":{\"prompt_tokens\":1}}";
        let models = models();
        let stream = to_stream(body.as_bytes(), models.find("svc/qwen3-32b").unwrap(), ModelRoute::Chat);
        let head =
            r#"data: {"id":"c1","created":5,"object":"chat.completion.chunk","model":"svc/qwen3-32b","choices":["#;
        let calls = r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"index":7}]"#;
        let expected = [
            head,
            r#"{"index":0,"delta":{"role":"assistant","content":"\nhi","tool_calls":"#,
            calls,
            r#"},"logprobs":{"x":1.250},  "finish_reason":"stop"},{"index":1}],"usage":null}"#,
            "\n\n",
            head,
            r#"],"usage":{"prompt_tokens":1}}"#,
            "\n\ndata: [DONE]\n\n",
        ];
        assert_eq!(String::from_utf8(stream.to_vec()).unwrap(), expected.concat());
    }

    #[test]
    fn a_beginning_is_charged_by_what_it_says() {
        let models = models();
        let of = |read: &str| {
            let beginning = parse_partial(read.as_bytes(), &models.find("svc/qwen3-32b")?.model, &EXPECTED)?;
            let TokenUsage { prompt, completion, is_estimated, .. } =
                beginning.usage_with_unread(&EXPECTED.estimate(0));
            Some((prompt, completion, is_estimated))
        };
        let words = "x".repeat(264);
        for (read, usage) in [
            ("", None),
            (" \n ", None),
            ("no JSON", None),
            ("[", None),
            (r#"{"error":{"message":"#, None),
            (r#"{"error":{"message":"x"},"id":"#, None),
            (r#"{"id":"x"}"#, None),
            (r#"{"choices":[{]}"#, None),
            ("\n{", Some((7, 1, true))),
            (r#"{"id":"x","error":null,"choices":["#, Some((7, 1, true))),
            (format!(r#"{{"choices":[{{"message":{{"content":"{words}"#).as_str(), Some((7, 66, true))),
            (format!(r#"{{"id":"{words}","choices":[{{"message":{{"content":"{words}"#).as_str(), Some((7, 66, true))),
            (format!(r#"{{"choices":[{{"message":{{"content":"{words}{words}"#).as_str(), Some((7, 90, true))),
            (r#"{"usage":{"prompt_tokens":3,"completion_tokens":2},"choices":["#, Some((3, 2, false))),
            (r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}"#, Some((3, 2, false))),
            (r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tok"#, Some((7, 1, true))),
            (
                r#"{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":0}"#,
                Some((3, 1, true)),
            ),
            // Everything arrived, but the connection broke before its end.
            (r#"{"choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#, Some((3, 2, false))),
            (format!(r#"{{"choices":[{{"message":{{"content":"{words}"}}}}]}}"#).as_str(), Some((7, 66, true))),
            (r#"{"choices":7,"usage":{"prompt_tokens":3,"completion_tokens":2}}"#, None),
            (r#"{"choices":[],"error":{},"usage":{"prompt_tokens":3,"completion_tokens":2}}"#, None),
        ] {
            assert_eq!(of(read), usage, "{read}");
        }
    }

    #[test]
    fn words_that_have_not_come_are_charged_by_what_was_worked() {
        let models = models();
        let model = &models.find("svc/qwen3-32b").unwrap().model;
        let of = |read: &str| {
            parse_partial(read.as_bytes(), model, &EXPECTED)
                .unwrap()
                .usage_with_unread(&EXPECTED.estimate(80))
                .completion
        };
        let words = "x".repeat(340);
        for (read, completion) in [
            (r#"{"id":"#, 80),
            (r#"{"choices":[{"message":{"content":"x"#, 80),
            (format!(r#"{{"choices":[{{"message":{{"content":"{words}"#).as_str(), 85),
            (r#"{"choices":[{"message":{"content":"x"},"logprobs":{"content":[{"logprob":-0."#, 1),
            (r#"{"choices":[{"logprobs":{"content":[{"logprob":-"#, 80),
            (r#"{"choices":[{"message":{"content":"x"}}],"usage":{"#, 1),
            (r#"{"choices":[{"message":{"content":"x"}}]}"#, 1),
            (r#"{"usage":{"prompt_tokens":3,"completion_tokens":2},"choices":["#, 2),
        ] {
            assert_eq!(of(read), completion, "{read}");
        }
    }

    #[test]
    fn usage_that_is_taken_back_is_said_again() {
        let models = models();
        let model = models.find("svc/qwen3-32b").unwrap();
        let said = r#""usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}"#;
        let body = format!(r#"{{"choices":[{{}}],{said},"usage":null}}"#);
        let RewrittenAnswer { body: out, usage, ending } =
            rewrite(body.as_bytes(), model, &EXPECTED, ModelRoute::Chat).unwrap();
        assert_eq!((usage.prompt, usage.completion, usage.is_estimated, ending), (3, 2, false, Ending::Stop));
        let said = said.replace("5}", r#"5,"cost_microeuros":2}"#);
        assert_eq!(
            String::from_utf8(out.to_vec()).unwrap(),
            format!(r#"{{"choices":[{{}}],{said},"usage":null,{said}}}"#)
        );
    }

    #[test]
    fn an_answer_that_says_nothing_is_none() {
        let models = models();
        let of = |body: &str| {
            let model = models.find("svc/qwen3-32b").unwrap();
            rewrite(body.as_bytes(), model, &EXPECTED, ModelRoute::Chat).map(|rewritten| rewritten.usage)
        };
        let usage = TokenUsage::reported(3, 0);
        let reported = r#""usage":{"prompt_tokens":3,"completion_tokens":0}"#;
        for (choices, is_empty) in [
            ("[]", true),
            ("[ ]", true),
            (r#"[{"message":{"role":"assistant","content":""},"finish_reason":"content_filter"}]"#, true),
            (
                r#"[{"finish_reason" : "content_filter","message":{"content":null},"content_filter_results":{"a":"b"}}]"#,
                true,
            ),
            (r#"[{"message":{"content":"x"},"finish_reason":"content_filter"}]"#, false),
            (r#"[{"message":{"refusal":"x"},"finish_reason":"content_filter"}]"#, false),
            (r#"[{"message":{"tool_calls":[{"function":{"name":"f"}}]},"finish_reason":"content_filter"}]"#, false),
            (r#"[{"message":{"content":""},"finish_reason":"content_filter"},{"message":{"content":"x"}}]"#, false),
            (r#"[{"message":{"content":""},"finish_reason":"stop"}]"#, false),
            (r#"[{"message":{"content":null},"finish_reason":"length"}]"#, false),
        ] {
            let empty = |usage| Err(AnswerError::Empty(usage));
            let of_reported = of(&format!(r#"{{"choices":{choices},{reported}}}"#));
            assert_eq!(of_reported == empty(Some(usage)), is_empty, "{choices}: {of_reported:?}");
            let silent = of(&format!(r#"{{"choices":{choices}}}"#));
            assert_eq!(silent == empty(None), is_empty, "{choices}: {silent:?}");
        }
        assert_eq!(of(r#"{"choices":7}"#), Err(AnswerError::NoCompletion));
    }

    #[test]
    fn words_without_a_token_are_estimated() {
        let models = models();
        let model = models.find("svc/qwen3-32b").unwrap();
        let of = |content: &str| {
            let nothing = r#""usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#;
            let body = format!(r#"{{"choices":[{{"message":{{"content":"{content}"}}}}],{nothing}}}"#);
            let RewrittenAnswer { body: out, usage, .. } =
                rewrite(body.as_bytes(), model, &EXPECTED, ModelRoute::Chat).unwrap();
            let shown: serde_json::Value = serde_json::from_slice(&out).unwrap();
            (usage.prompt, usage.completion, usage.is_estimated, shown["usage"]["total_tokens"].as_u64().unwrap())
        };
        assert_eq!(of(""), (0, 0, false, 0));
        assert_eq!(of("five words, of some length"), (7, 7, true, 14));
    }
}
