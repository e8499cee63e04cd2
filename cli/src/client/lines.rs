//! Lines of an answer that comes in pieces.

/// A buffer that takes bytes as they arrive and gives complete lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes bytes in.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// Takes the next line out, without its end; none while it is not complete.
    pub(super) fn next(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// The number of bytes of the line that is not complete.
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
        let mut lines = Lines::default();
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
