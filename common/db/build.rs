//! The migrations and the types of columns are compiled in: the crate is built again when they change.
fn main() {
    println!("cargo:rerun-if-changed=sqlx.toml");
    println!("cargo:rerun-if-changed=../../migrations");
}
