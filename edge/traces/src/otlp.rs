//! Spans in OTLP's JSON format.

use std::sync::Arc;

use config::models::Model;
use openai::{error_code::ErrorCode, usage::TokenUsage};
use serde_json::{Value, json};

use super::context::SpanContext;

/// `SPAN_KIND_CLIENT`: by the conventions, a caller of a model is a client.
const SPAN_KIND: u8 = 3;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u8 = 2;
const SCOPE: &str = "svc.gateway";

pub(super) struct EndedSpan {
    pub(super) context: SpanContext,
    pub(super) start_millis: u64,
    pub(super) nanos: u64,
    pub(super) model: Arc<Model>,
    pub(super) account: Option<String>,
    pub(super) completion: Option<String>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) reasons: Vec<&'static str>,
    pub(super) error: Option<ErrorCode>,
    pub(super) status: Option<u16>,
}

/// The program that created the spans.
pub(super) struct SpanResource {
    pub(super) edge: String,
    pub(super) machine: String,
}

pub(super) fn request(spans: &[EndedSpan], SpanResource { edge, machine }: &SpanResource) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            text("service.name", "svc-gateway"),
            text("service.version", version),
            text("service.instance.id", edge),
            text("host.name", machine),
        ] },
        "scopeSpans": [{
            "scope": { "name": SCOPE, "version": version },
            "spans": spans.iter().map(EndedSpan::to_json).collect::<Vec<_>>(),
        }],
    }] })
}

impl EndedSpan {
    fn to_json(&self) -> Value {
        let Self { context, model, .. } = self;
        let start = u128::from(self.start_millis) * 1_000_000;
        let mut span = json!({
            "traceId": format!("{:032x}", context.trace),
            "spanId": format!("{:016x}", context.span),
            "name": format!("chat {}", model.id),
            "kind": SPAN_KIND,
            // OTLP's JSON has 64-bit numbers as strings.
            "startTimeUnixNano": start.to_string(),
            "endTimeUnixNano": (start + u128::from(self.nanos)).to_string(),
            "attributes": self.attributes(),
            "status": if self.error.is_some() { json!({ "code": STATUS_ERROR }) } else { json!({}) },
        });
        if let Some(parent) = context.parent {
            span["parentSpanId"] = format!("{parent:016x}").into();
        }
        if let Some(state) = &context.state {
            span["traceState"] = state.as_str().into();
        }
        span
    }

    fn attributes(&self) -> Vec<Value> {
        let model = &self.model;
        let mut attributes = vec![
            text("gen_ai.operation.name", "chat"),
            text("gen_ai.provider.name", &model.provider.name),
            text("gen_ai.request.model", &model.id),
            text("gen_ai.response.model", &model.upstream),
        ];
        if let Some(host) = model.provider.base_url.host_str() {
            attributes.push(text("server.address", host));
        }
        if let Some(port) = model.provider.base_url.port_or_known_default() {
            attributes.push(number("server.port", port.into()));
        }
        if let Some(usage) = &self.usage {
            attributes.push(number("gen_ai.usage.input_tokens", usage.prompt));
            attributes.push(number("gen_ai.usage.output_tokens", usage.completion));
            attributes.push(json!({ "key": "svc.usage.estimated", "value": { "boolValue": usage.is_estimated } }));
        }
        if !self.reasons.is_empty() {
            let values: Vec<_> = self.reasons.iter().map(|reason| json!({ "stringValue": reason })).collect();
            attributes.push(
                json!({ "key": "gen_ai.response.finish_reasons", "value": { "arrayValue": { "values": values } } }),
            );
        }
        if let Some(error) = self.error {
            attributes.push(text("error.type", error.as_str()));
        }
        if let Some(status) = self.status {
            attributes.push(number("http.response.status_code", status.into()));
        }
        if let Some(completion) = &self.completion {
            attributes.push(text("svc.completion.id", completion));
        }
        if let Some(account) = &self.account {
            attributes.push(text("svc.account", account));
        }
        attributes
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}
