//! A completion that is not streamed, rewritten for the client.

use bytes::{Bytes, BytesMut};

use super::{json, meter::Usage, models::ServedModel, usage_report};
use crate::limits;

/// Rewrites a provider's whole answer: under the gateway's name of the model, and with an estimate where the provider
/// reports no usage. Returns the answer and its usage, or `None` if it is no completion.
pub(super) fn rewrite(
    body: &[u8],
    model: &ServedModel,
    estimated_prompt: u64,
    max_completion: u64,
) -> Option<(Bytes, Usage)> {
    let mut out = BytesMut::with_capacity(body.len() + limits::ADDED_BYTES);
    let (mut written, mut usage, mut choices) = (0, None, None);
    for field in json::fields(body) {
        let field = field.ok()?;
        let value = body.get(field.value.clone())?;
        match &*field.name() {
            b"model" => {
                out.extend_from_slice(body.get(written..field.value.start)?);
                out.extend_from_slice(model.id_json.as_bytes());
                written = field.value.end;
            }
            b"usage" => usage = usage_report::parse(value),
            b"choices" => choices = Some(value),
            b"error" if value != b"null" => return None,
            _ => {}
        }
    }
    out.extend_from_slice(body.get(written..)?);
    let choices = choices.filter(|choices| choices.starts_with(b"["))?;
    if let Some(usage) = usage {
        return Some((out.freeze(), usage));
    }
    let completion = usage_report::estimate_completion(choices).min(max_completion.max(1));
    let usage = Usage { prompt: estimated_prompt, completion, is_estimated: true };
    out.truncate(out.trim_ascii_end().len() - 1);
    out.extend_from_slice(b",\"usage\":");
    out.extend_from_slice(usage_report::to_json(&usage).as_bytes());
    out.extend_from_slice(b"}");
    Some((out.freeze(), usage))
}
