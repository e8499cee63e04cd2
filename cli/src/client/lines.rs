//! Splits a body that arrives in pieces into lines.

/// A buffer that takes bytes as they arrive and returns complete lines.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    rest: Vec<u8>,
}

impl LineBuffer {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// Removes and returns the next complete line, without its line break.
    pub(super) fn next(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_the_bytes_come() {
        let text = "data: {\"a\":\"ö\"}\r\n\r\ndata: [DONE]\n\n";
        let mut lines = LineBuffer::default();
        let mut found = Vec::new();
        for byte in text.as_bytes() {
            lines.push(&[*byte]);
            while let Some(line) = lines.next() {
                found.push(line);
            }
        }
        assert_eq!(found, ["data: {\"a\":\"ö\"}", "", "data: [DONE]", ""]);
    }
}
