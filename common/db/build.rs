//! Rebuilds the crate when the migrations or the column types change, because both are compiled in.
fn main() {
    println!("cargo:rerun-if-changed=sqlx.toml");
    println!("cargo:rerun-if-changed=../../migrations");
}
