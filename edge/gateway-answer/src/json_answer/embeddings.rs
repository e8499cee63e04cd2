//! Answers with embeddings. The usage is read; the numbers pass unchanged.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::BytesMut;
use domain::usage::Ending;
use gateway_request::models::ServedModel;
use openai::{
    json,
    usage::TokenUsage,
    usage_report::{CostFields, ExpectedUsage},
};

use super::{AnswerError, RewrittenAnswer};

/// Rewrites a provider's answer with the gateway's name of the model, the cost, and an estimated usage if none is
/// reported.
pub(super) fn rewrite(
    body: &[u8],
    model: &ServedModel,
    expected: &ExpectedUsage,
) -> Result<RewrittenAnswer, AnswerError> {
    let mut out = BytesMut::with_capacity(body.len() + limits::ADDED_BYTES);
    let (mut written, mut data, mut usage) = (0, None, None);
    let part = |range: std::ops::Range<usize>| body.get(range).unwrap_or_default();
    for field in json::fields(body) {
        let field = field.map_err(|_| AnswerError::NoCompletion)?;
        let value = part(field.value.clone());
        match &*field.name() {
            b"model" => {
                out.extend_from_slice(part(written..field.value.start));
                out.extend_from_slice(model.id_json.as_bytes());
                written = field.value.end;
            }
            b"data" => data = Some(value),
            b"usage" => {
                usage = prompt_tokens(value);
                if let Some(prompt) = usage {
                    out.extend_from_slice(part(written..field.value.end - 1));
                    let cost = CostFields::for_usage(&TokenUsage::reported(prompt, 0), &model.model);
                    out.extend_from_slice(format!("{cost}}}").as_bytes());
                    written = field.value.end;
                }
            }
            b"error" if value != b"null" => return Err(AnswerError::NoCompletion),
            _ => {}
        }
    }
    out.extend_from_slice(part(written..body.len()));
    let reported = usage.map(|prompt| TokenUsage::reported(prompt, 0));
    let mut embeddings = data.and_then(json::array_elements).ok_or(AnswerError::NoCompletion)?;
    if embeddings.next().is_none() {
        return Err(AnswerError::Empty(reported));
    }
    let usage = reported.unwrap_or_else(|| expected.estimate(0));
    if reported.is_none() {
        out.truncate(out.trim_ascii_end().len() - 1);
        let (prompt, cost) = (usage.prompt, CostFields::for_usage(&usage, &model.model));
        let counts = format!("\"prompt_tokens\":{prompt},\"total_tokens\":{prompt}");
        let said = format!(",\"usage\":{{{counts},\"estimated\":true{cost}}}}}");
        out.extend_from_slice(said.as_bytes());
    }
    Ok(RewrittenAnswer { body: out.freeze(), usage, ending: Ending::Stop })
}

/// Returns the reported tokens, as those of the prompt or the total, which are the same here.
fn prompt_tokens(usage: &[u8]) -> Option<u64> {
    let (mut prompt, mut total) = (None, None);
    for field in json::fields(usage).map_while(Result::ok) {
        let count = usage.get(field.value.clone()).and_then(|count| serde_json::from_slice::<u64>(count).ok());
        match &*field.name() {
            b"prompt_tokens" => prompt = count,
            b"total_tokens" => total = count,
            _ => {}
        }
    }
    prompt.max(total).filter(|tokens| *tokens <= limits::BELIEVABLE_TOKENS)
}

/// Encodes each embedding of an answer in base64, as the 32-bit numbers that clients decode. Returns `None` if the
/// answer is invalid. Embeddings that the provider has encoded pass unchanged.
pub fn encode_base64(answer: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(answer.len());
    let mut written = 0;
    let data = json::fields(answer).map_while(Result::ok).find(|field| *field.name() == *b"data")?;
    for embedding in json::array_elements(answer.get(data.value.clone())?)? {
        let field = json::fields(embedding).map_while(Result::ok).find(|field| *field.name() == *b"embedding")?;
        let numbers = embedding.get(field.value)?;
        let Some(elements) = json::array_elements(numbers) else { continue };
        let mut bytes = Vec::new();
        for number in elements {
            bytes.extend_from_slice(&std::str::from_utf8(number).ok()?.parse::<f32>().ok()?.to_le_bytes());
        }
        let start = numbers.as_ptr().addr() - answer.as_ptr().addr();
        out.extend_from_slice(answer.get(written..start)?);
        out.push(b'"');
        out.extend_from_slice(STANDARD.encode(&bytes).as_bytes());
        out.push(b'"');
        written = start + numbers.len();
    }
    out.extend_from_slice(answer.get(written..)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use config::{Gateway, models::ModelCatalog};
    use serde_json::{Value, json};

    use super::*;
    use gateway_request::models::ServedModels;

    const EXPECTED: ExpectedUsage = ExpectedUsage { prompt: 7, completion: 0, choices: 0, images: 0 };

    fn of(body: &str) -> Result<(String, TokenUsage), AnswerError> {
        let config = Gateway { provider_url: Some("http://127.0.0.1:9".parse().unwrap()), ..Gateway::default() };
        let models = ServedModels::new(&ModelCatalog::from_config(&config, |_| None).unwrap(), &config, None).unwrap();
        let RewrittenAnswer { body, usage, .. } =
            rewrite(body.as_bytes(), models.find("svc/qwen3-32b").unwrap(), &EXPECTED)?;
        Ok((String::from_utf8(body.to_vec()).unwrap(), usage))
    }

    #[test]
    fn numbers_pass_as_they_are_and_tokens_are_read() {
        let body = |model: &str, usage: &str| {
            format!(r#"{{"object":"list", "data":[{{"embedding":[0.10,-1e-7],"index":0}}],"model":"{model}"{usage}}}"#)
        };
        for (usage, tokens) in [
            (r#","usage":{"prompt_tokens":3,"total_tokens":3}"#, 3),
            (r#","usage":{"prompt_tokens":3,"total_tokens":3,"completion_tokens":0}"#, 3),
            (r#","usage":{"total_tokens":4}"#, 4),
        ] {
            let (out, read) = of(&body("upstream", usage)).unwrap();
            assert_eq!(out, body("svc/qwen3-32b", &usage.replace('}', r#","cost_microeuros":1}"#)));
            assert_eq!((read.prompt, read.completion, read.is_estimated), (tokens, 0, false));
        }
        let (out, read) = of(&body("upstream", "")).unwrap();
        assert!(
            out.ends_with(r#","usage":{"prompt_tokens":7,"total_tokens":7,"estimated":true,"cost_microeuros":2}}"#),
            "{out}"
        );
        assert_eq!((read.prompt, read.completion, read.is_estimated), (7, 0, true));
    }

    #[test]
    fn what_has_no_embedding_is_no_answer() {
        for body in ["[]", r#"{"choices":[]}"#, r#"{"data":{}}"#, r#"{"error":{},"data":[{}]}"#] {
            assert_eq!(of(body).unwrap_err(), AnswerError::NoCompletion, "{body}");
        }
        assert_eq!(of(r#"{"data":[]}"#).unwrap_err(), AnswerError::Empty(None));
    }

    #[test]
    fn numbers_become_base64() {
        let of = |data: &Value| {
            let answer = json!({ "data": data, "usage": { "prompt_tokens": 1 } }).to_string();
            encode_base64(answer.as_bytes()).map(|out| serde_json::from_slice::<Value>(&out).unwrap())
        };
        let answer = of(&json!([
            { "embedding": [0.5, -2.0], "index": 0 },
            { "embedding": "AAAAPw==", "index": 1 },
            { "index": 2, "embedding": [] },
        ]));
        let answer = answer.unwrap();
        let embeddings: Vec<_> = answer["data"].as_array().unwrap().iter().map(|one| &one["embedding"]).collect();
        assert_eq!(embeddings, ["AAAAPwAAAMA=", "AAAAPw==", ""]);
        assert_eq!(answer["usage"]["prompt_tokens"], 1);
        assert_eq!(of(&json!([{ "embedding": ["x"] }])), None);
        assert_eq!(of(&json!([{}])), None);
    }
}
