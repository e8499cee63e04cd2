//! Examples of bodies: one for each schema that an operation takes or returns, from `examples.json`.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

/// By the schema's name.
static EXAMPLES: LazyLock<BTreeMap<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// Adds the example of its schema to each body of `described`, a request body or a response.
pub(super) fn add(described: &mut Value) {
    let contents = described.get_mut("content").and_then(Value::as_object_mut);
    for content in contents.into_iter().flat_map(|contents| contents.values_mut()) {
        let name = content.pointer("/schema/$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
        if let Some(example) = name.and_then(|name| EXAMPLES.get(name)) {
            content["example"] = example.clone();
        }
    }
}
