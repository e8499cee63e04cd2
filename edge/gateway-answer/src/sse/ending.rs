//! The end of a stream, and the cost of its answer.

use bytes::BytesMut;
use openai::{
    usage::TokenUsage,
    usage_report::{self, CostFields},
};

use super::{super::json_answer, ChatFrames, StreamError};

const DONE: &[u8] = b"data: [DONE]\n\n";

impl ChatFrames {
    /// Adds the cost to the `usage` object that ends at `end` in `out`.
    pub(super) fn write_cost(&self, usage: &TokenUsage, end: usize, out: &mut BytesMut) {
        if self.model.model.provider.has_openai_usage {
            let cost = CostFields::for_usage(usage, &self.model.model).to_string();
            let rest = out.split_off(end.saturating_sub(1));
            for part in [cost.as_bytes(), &rest[..]] {
                out.extend_from_slice(part);
            }
        }
    }

    /// Writes the end of the stream, preceded by a usage frame unless the last frame had the final usage. Fails if the
    /// model has written nothing, which is no completion.
    pub(super) fn close(&mut self, out: &mut BytesMut) -> Result<(), StreamError> {
        if self.with_choices == 0 || (self.is_filtered && !self.has_words()) {
            let report = self.left_out_report.filter(|report| report.complaint.is_some());
            return Err(report.map_or(StreamError::NoAnswer, StreamError::Reported));
        }
        let usage = self.usage();
        if !self.last.has_usage || !self.last.is_closing || usage.is_estimated {
            out.extend_from_slice(b"data: {");
            out.extend_from_slice(self.identity.as_deref().unwrap_or_default());
            let rest = format!(
                "\"object\":{},\"model\":{},\"choices\":[],\"usage\":{}}}\n\n",
                json_answer::chunk_object(self.route),
                self.model.id_json,
                usage_report::to_json(&usage, &CostFields::for_usage(&usage, &self.model.model)),
            );
            out.extend_from_slice(rest.as_bytes());
        }
        out.extend_from_slice(DONE);
        Ok(())
    }
}

/// Writes the fields `id` and `created` as the beginning of a JSON object.
pub(super) fn identity(id: Option<&[u8]>, created: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in [("id", id), ("created", created)] {
        if let Some(value) = value.filter(|value| value.len() <= limits::IDENTITY_BYTES) {
            out.extend_from_slice(format!("\"{name}\":").as_bytes());
            out.extend_from_slice(value);
            out.push(b',');
        }
    }
    out
}
