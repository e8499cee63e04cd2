//! Paths as clients write them, with the slashes and versions that base URLs add.

use std::borrow::Cow;

const VERSION: &str = "/v1/";

/// Returns the path of the intended route: no doubled or trailing slashes, and the version exactly once. Clients join a
/// base URL and a path, and people write base URLs with or without a trailing slash and the version.
pub(super) fn canonical(path: &str) -> Cow<'_, str> {
    let is_canonical = path.strip_prefix(VERSION).is_some_and(|rest| {
        !rest.is_empty() && !rest.ends_with('/') && !rest.starts_with("v1/") && !path.contains("//")
    });
    if is_canonical {
        return path.into();
    }
    let segments = path.split('/').filter(|segment| !segment.is_empty()).skip_while(|segment| *segment == "v1");
    (VERSION.to_owned() + &segments.collect::<Vec<_>>().join("/")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_and_versions_make_no_difference() {
        for path in ["models", "chat/completions", "models/svc/qwen3-32b", "models/svc%2Fqwen3-32b"] {
            let expected = format!("/v1/{path}");
            let doubled = path.replace('/', "//");
            for written in [
                format!("/v1/{path}"),
                format!("/v1/{path}/"),
                format!("/v1//{path}//"),
                format!("//v1/{path}"),
                format!("/v1/v1/{path}"),
                format!("/v1//v1//{doubled}/"),
                format!("/{path}"),
                format!("//{doubled}"),
            ] {
                assert_eq!(canonical(&written), expected, "{written}");
            }
            assert!(matches!(canonical(&expected), Cow::Borrowed(_)));
        }
        for (path, unknown) in
            [("/", "/v1/"), ("", "/v1/"), ("/v1", "/v1/"), ("/v2/models", "/v1/v2/models"), ("*", "/v1/*")]
        {
            assert_eq!(canonical(path), unknown);
        }
    }
}
