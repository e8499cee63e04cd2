//! Collects what was left out of a request for the warning header.

use http::HeaderValue;

/// The list of what was left out: each item once, and at most [`limits::WARNING_BYTES`] in total.
#[derive(Debug, Default)]
pub(super) struct LeftOutWarnings(String);

impl LeftOutWarnings {
    /// Adds an item, which is a string of our own.
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

    pub(super) fn into_header(self) -> Option<HeaderValue> {
        if self.0.is_empty() {
            return None;
        }
        HeaderValue::try_from(format!("left out: {}", self.0)).ok()
    }
}
