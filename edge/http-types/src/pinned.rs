//! Heap-allocated futures.

use std::pin::Pin;

/// Boxes the future that `make` creates. `Box::pin` creates it on the stack and copies all of it, although little of it
/// has been written; here the compiler can create it in the box.
pub fn pinned<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}
