//! The code that `CONTRIBUTING.md` quotes is the code as it is.

use std::path::Path;

/// Between two pieces of one file.
const GAP: &str = "// …";

#[test]
fn every_excerpt_is_the_code_itself() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let guide = std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let excerpts: Vec<&str> = guide.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(excerpts.len() >= 7, "an excerpt each of endpoint, extractor, SQL, error, job, row and test");
    for excerpt in excerpts {
        let (path, code) = excerpt.trim_start().split_once('\n').unwrap();
        let path =
            path.strip_prefix("// ").unwrap_or_else(|| panic!("an excerpt does not say where it is from: {path}"));
        let source = std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        let source = flat(&source);
        for piece in code.split(GAP) {
            assert!(
                source.contains(&flat(piece)),
                "this is not in {path}, so CONTRIBUTING.md shows an old shape:\n{piece}"
            );
        }
    }
}

/// Without the indentation, which a list in the guide changes.
fn flat(code: &str) -> String {
    code.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}
