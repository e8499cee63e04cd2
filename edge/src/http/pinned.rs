//! Futures in boxes of their own.

use std::pin::Pin;

/// Boxes the future that `make` makes. `Box::pin` makes it on the stack, and copies all of it into the box, although little of it has
/// been written; here the compiler can make it in the box.
pub(crate) fn pinned<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}
