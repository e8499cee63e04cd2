//! HTTP to the AI gateway, which uses `OpenAI`'s format and accepts AI keys only.

use std::{collections::VecDeque, time::Duration};

use api::ai::AiModel;
use reqwest::{RequestBuilder, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::{ANSWER_BYTES, REFUSAL_BYTES, body, connection, lines::LineBuffer, trace};
use crate::{
    credentials::{Connection, RequestOutput},
    failure::{Failure, FailureClass},
};

const LIST_TIMEOUT: Duration = Duration::from_secs(30);
const WORD_TIMEOUT: Duration = Duration::from_mins(5);
const LINE_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct GatewayClient {
    http: reqwest::Client,
    address: Url,
    key: String,
    voice: RequestOutput,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GatewayModel {
    pub(crate) id: String,
    pub(crate) owned_by: String,
    pub(crate) pricing: TokenPrices,
    /// The model's endpoints; empty if the gateway does not report them.
    #[serde(default, skip_serializing)]
    supported_endpoints: Vec<String>,
}

impl GatewayModel {
    pub(crate) fn is_chat_model(&self) -> bool {
        self.supported_endpoints.is_empty()
            || self.supported_endpoints.iter().any(|path| path.ends_with("/chat/completions"))
    }
}

impl From<AiModel> for GatewayModel {
    fn from(model: AiModel) -> Self {
        let pricing = TokenPrices {
            input: model.input_cents_per_million.into(),
            output: model.output_cents_per_million.into(),
            currency: "EUR".to_owned(),
            unit: "cents_per_million_tokens".into(),
        };
        Self { id: model.id, owned_by: model.owned_by, pricing, supported_endpoints: Vec::new() }
    }
}

/// The price of a model, in cents per million tokens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TokenPrices {
    pub(crate) input: f64,
    pub(crate) output: f64,
    pub(crate) currency: String,
    #[serde(default)]
    pub(crate) unit: serde_json::Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenUsage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnswerPart {
    Text(String),
    Used(TokenUsage),
}

#[derive(Debug)]
pub(crate) struct AnswerStream {
    response: Response,
    lines: LineBuffer,
    ready: VecDeque<AnswerPart>,
    done: bool,
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<GatewayModel>,
}

#[derive(Deserialize)]
struct GatewayErrorResponse {
    error: GatewayErrorBody,
}

#[derive(Deserialize)]
struct GatewayErrorBody {
    message: String,
    #[serde(default)]
    code: Option<String>,
}

#[derive(Deserialize)]
struct CompletionChunk {
    #[serde(default)]
    choices: Vec<ChunkChoice>,
    usage: Option<TokenUsage>,
    error: Option<GatewayErrorBody>,
}

#[derive(Deserialize)]
struct ChunkChoice {
    #[serde(default)]
    delta: ChunkDelta,
}

#[derive(Default, Deserialize)]
struct ChunkDelta {
    content: Option<String>,
}

impl GatewayClient {
    pub(crate) fn new(connection: &Connection, key: String) -> anyhow::Result<Self> {
        let address = connection.gateway()?;
        Ok(Self { http: connection::build(connection)?, address, key, voice: connection.voice })
    }

    pub(crate) async fn models(&self) -> Result<Vec<GatewayModel>, Failure> {
        let request = self.http.get(self.url("models")?).timeout(LIST_TIMEOUT);
        let list = body::read(self.send(request).await?, ANSWER_BYTES).await.map_err(|_| self.unexpected_answer())?;
        serde_json::from_slice::<ModelList>(&list).map(|list| list.data).map_err(|_| self.unexpected_answer())
    }

    pub(crate) async fn chat(
        &self,
        model: &str,
        system: Option<&str>,
        prompt: &str,
        max_tokens: Option<u32>,
    ) -> Result<AnswerStream, Failure> {
        let message = |role: &str, content: &str| json!({"role": role, "content": content});
        let messages: Vec<_> =
            system.map(|text| message("system", text)).into_iter().chain([message("user", prompt)]).collect();
        let mut body = json!({"model": model, "messages": messages, "stream": true});
        if let Some(max_tokens) = max_tokens {
            body["max_tokens"] = max_tokens.into();
        }
        let response = self.send(self.http.post(self.url("chat/completions")?).json(&body)).await?;
        Ok(AnswerStream { response, lines: LineBuffer::default(), ready: VecDeque::new(), done: false })
    }

    fn url(&self, path: &str) -> Result<Url, Failure> {
        let base = self.address.as_str().trim_end_matches('/');
        format!("{base}/v1/{path}").parse().map_err(|_| Failure::usage(format!("{base} is not an address.")))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let sending = trace::send(&self.http, request.bearer_auth(&self.key), self.voice);
        let sent = tokio::time::timeout(WORD_TIMEOUT, sending).await;
        let response = sent.map_err(|_| self.unreachable("no answer in time"))?.map_err(|error| {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            self.unreachable(&cause.to_string())
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let refusal = body::read(response, REFUSAL_BYTES).await.map_err(|_| self.unexpected_answer())?;
        let refusal =
            serde_json::from_slice::<GatewayErrorResponse>(&refusal).map_err(|_| self.unexpected_answer())?.error;
        Err(refusal_failure(status.as_u16(), refusal, retry_after))
    }

    fn unreachable(&self, reason: &str) -> Failure {
        Failure::new(FailureClass::Unreachable, "unreachable", format!("Cannot reach {}: {reason}.", self.address))
            .with_hint("Check your connection and the gateway's address (--ai-url or SVC_AI_URL).")
    }

    fn unexpected_answer(&self) -> Failure {
        Failure::new(
            FailureClass::Unreachable,
            "unexpected_answer",
            format!("{} did not answer as the AI gateway does.", self.address),
        )
        .with_hint("Check the gateway's address (--ai-url or SVC_AI_URL); if it is right, update svc.")
    }
}

fn refusal_failure(status: u16, refusal: GatewayErrorBody, retry_after: Option<u64>) -> Failure {
    let code = refusal.code.unwrap_or_else(|| "refused".to_owned());
    // The gateway is reachable, and waiting would not help, but another model would.
    if code == "model_unavailable" {
        let failure = Failure::new(FailureClass::Refused, code, refusal.message);
        return failure.with_hint("Name another with --model: `svc ai models` lists those that can be asked.");
    }
    let failure = Failure::answered(status, code, refusal.message);
    match (status, retry_after) {
        (401, _) => failure.with_hint("Make a key with `svc ai key create`, and set SVC_AI_KEY to it."),
        (429 | 503, Some(seconds)) => failure.with_hint(format!("Try again in {seconds} seconds.")),
        _ => failure,
    }
}

impl AnswerStream {
    pub(crate) async fn next(&mut self) -> Result<Option<AnswerPart>, Failure> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Ok(Some(part));
            }
            if self.done {
                return Ok(None);
            }
            let chunk = tokio::time::timeout(WORD_TIMEOUT, self.response.chunk()).await;
            let Ok(Ok(Some(bytes))) = chunk else { return Err(broken_off()) };
            self.lines.push(&bytes);
            while let Some(line) = self.lines.next() {
                self.read(&line)?;
            }
            if self.lines.len() > LINE_BYTES {
                return Err(broken_off());
            }
        }
    }

    fn read(&mut self, line: &str) -> Result<(), Failure> {
        let Some(data) = line.strip_prefix("data:") else { return Ok(()) };
        let data = data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let Ok(frame) = serde_json::from_str::<CompletionChunk>(data) else { return Ok(()) };
        if let Some(error) = frame.error {
            return Err(refusal_failure(502, error, None));
        }
        let texts = frame.choices.into_iter().filter_map(|choice| choice.delta.content);
        self.ready.extend(texts.filter(|text| !text.is_empty()).map(AnswerPart::Text));
        self.ready.extend(frame.usage.map(AnswerPart::Used));
        Ok(())
    }
}

fn broken_off() -> Failure {
    Failure::new(FailureClass::Unreachable, "broken_off", "The answer broke off.").with_hint("Try again in a minute.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let refusal = |code: &str| GatewayErrorBody { message: "No.".into(), code: Some(code.into()) };
        let failure = refusal_failure(401, refusal("invalid_api_key"), None);
        assert_eq!(failure.kind, FailureClass::NotSignedIn);
        assert!(failure.hint.unwrap().contains("svc ai key create"));
        let failure = refusal_failure(503, refusal("model_unavailable"), None);
        assert_eq!(failure.kind, FailureClass::Refused);
        assert!(failure.hint.unwrap().contains("--model"));
        let failure = refusal_failure(429, refusal("rate_limit_exceeded"), Some(7));
        assert_eq!((failure.kind, failure.hint.as_deref()), (FailureClass::Limit, Some("Try again in 7 seconds.")));
    }
}
