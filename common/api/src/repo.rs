//! `/projects/:name/repo`.

use domain::repo::{Branch, Directory, RepoName};
use serde::{Deserialize, Deserializer, Serialize};

/// Links a project to a repository, whose pushes then deploy; or unlinks it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkRepo {
    /// The installation that reaches the repository: shared with the project's organization, or your own for a personal
    /// project. Needed unless `repo` is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub installation_id: Option<i64>,
    /// `owner/name` at the code host; null unlinks.
    #[serde(deserialize_with = "said")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = true))]
    pub repo: Option<RepoName>,
    /// The branch that deploys; the repository's default branch when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub branch: Option<Branch>,
    /// The folder that is published; the whole repository when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub directory: Option<Directory>,
}

/// What the project is linked to now.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RepoLinked {
    /// Always true.
    pub ok: bool,
    /// `owner/name`; null when it is linked to none.
    pub repo: Option<String>,
    /// The branch that deploys.
    pub branch: Option<String>,
    /// The folder that is published; `.` for the whole repository.
    pub directory: Option<String>,
}

/// Null is a word here: leaving the field out must not unlink.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RepoName>, D::Error> {
    Option::deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_null_unlinks() {
        let read = |json: &str| serde_json::from_str::<LinkRepo>(json);
        assert!(read(r#"{"repo":null}"#).unwrap().repo.is_none());
        assert!(read("{}").is_err());
        assert_eq!(read(r#"{"repo":"a/b","installation_id":7}"#).unwrap().installation_id, Some(7));
    }
}
