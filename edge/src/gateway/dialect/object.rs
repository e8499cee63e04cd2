//! Writing JSON field by field.

/// An object that is being written.
pub(super) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Begins an object at the end of `out`.
    pub(super) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Writes a field as it stands elsewhere: its name, colon and value.
    pub(super) fn copy(&mut self, whole: &[u8]) {
        self.separate();
        self.out.extend_from_slice(whole);
    }

    /// Writes a field.
    pub(super) fn field(&mut self, name: &str, value: &[u8]) {
        self.value(name).extend_from_slice(value);
    }

    /// Begins a field, whose value the caller writes.
    pub(super) fn value(&mut self, name: &str) -> &mut Vec<u8> {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Ends the object.
    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
    }
}

/// Writes a comma, unless an array has just been begun at the end of `out`.
pub(super) fn separate_element(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}
