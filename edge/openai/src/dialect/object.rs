//! Writes JSON field by field.

/// Text under construction: in one buffer, or in pieces that share the long parts of their source.
pub trait TextSink {
    /// Returns the length in bytes of the text so far.
    fn len(&self) -> usize;

    /// Returns whether there is no text yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends one byte, which [`pop`](Self::pop) can remove again.
    fn push(&mut self, byte: u8);

    /// Appends `text`, which an implementation may share with the source instead of copying it.
    fn extend_from_slice(&mut self, text: &[u8]);

    /// Removes the last byte, which must have been pushed alone.
    fn pop(&mut self);
}

impl TextSink for Vec<u8> {
    fn len(&self) -> usize {
        self.len()
    }

    fn push(&mut self, byte: u8) {
        self.push(byte);
    }

    fn extend_from_slice(&mut self, text: &[u8]) {
        self.extend_from_slice(text);
    }

    fn pop(&mut self) {
        self.pop();
    }
}

pub(super) struct ObjectWriter<'o, T> {
    out: &'o mut T,
    is_empty: bool,
}

impl<'o, T: TextSink> ObjectWriter<'o, T> {
    pub(super) fn open(out: &'o mut T) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Copies a whole field: its name, colon and value.
    pub(super) fn copy(&mut self, whole: &[u8]) {
        self.separate();
        self.out.extend_from_slice(whole);
    }

    pub(super) fn field(&mut self, name: &str, value: &[u8]) {
        self.value(name).extend_from_slice(value);
    }

    /// Begins a field whose value the caller writes.
    pub(super) fn value(&mut self, name: &str) -> &mut T {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
    }
}

/// Writes a comma, unless the array in `out` has no elements since `start`.
pub(super) fn separate_element(out: &mut impl TextSink, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}
