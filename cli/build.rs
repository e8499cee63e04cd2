//! Embeds the commit that this program is built from.

fn main() {
    buildinfo::emit();
}
