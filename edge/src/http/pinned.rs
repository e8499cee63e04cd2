use std::pin::Pin;

/// Boxes the future that `make` makes. `Box::pin` makes it on the stack and copies all of it into the box, kilobytes of which
/// nothing has been written yet; here it is made in its place (in a release build).
pub(crate) fn pinned<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}
