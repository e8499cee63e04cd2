//! The migrations are compiled in: rebuild when one is added.
fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
