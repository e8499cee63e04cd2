//! What of a request was left out, for the header that says so.

use http::HeaderValue;

use crate::limits;

/// What was left out of a request. Each thing is named once, and no more than [`limits::WARNING_BYTES`] of them.
#[derive(Debug, Default)]
pub(super) struct Warnings(String);

impl Warnings {
    /// Adds something that was left out. It consists of words of our own.
    pub(super) fn add(&mut self, what: &'static str) {
        let is_known = self.0.split("; ").any(|known| known == what);
        if is_known || self.0.len() + what.len() > limits::WARNING_BYTES {
            return;
        }
        if !self.0.is_empty() {
            self.0.push_str("; ");
        }
        self.0.push_str(what);
    }

    /// The value of the header, if anything was left out.
    pub(super) fn into_header(self) -> Option<HeaderValue> {
        if self.0.is_empty() {
            return None;
        }
        HeaderValue::try_from(format!("left out: {}", self.0)).ok()
    }
}
