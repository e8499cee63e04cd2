//! `svc deployments files` and `svc deployments diff`.

use api::deployments::{DeployedFileList, DeploymentChanges};
use domain::{DeploymentId, ProjectName};

use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    output::{Output, count, size, table},
};

const SHORT_HASH: usize = 12;

pub(super) async fn list(name: &ProjectName, id: &DeploymentId, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = format!("/projects/{name}/deployments/{id}/files");
    let files = client.list(&path, |page: DeployedFileList| (page.files, page.next_cursor)).await;
    let files = files.map_err(|failure| explained(name, failure))?;
    output.list("files", &files, &["PATH", "SIZE", "TYPE", "SHA-256"], "It has no files that are served.", |file| {
        let hash = file.sha256.chars().take(SHORT_HASH).collect();
        vec![file.path.clone(), size(file.size), file.content_type.clone(), hash]
    })
}

pub(super) async fn diff(
    name: &ProjectName,
    id: &DeploymentId,
    against: Option<&DeploymentId>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let query = against.map(|against| format!("?against={against}")).unwrap_or_default();
    let path = format!("/projects/{name}/deployments/{id}/changes{query}");
    let answer = client.get::<DeploymentChanges>(&path).await;
    let changes = answer.map_err(|failure| explained(name, failure))?.body;
    output.note(&summary(id, &changes));
    output.result(&changes, || table(&["", "PATH", "SIZE", "BEFORE"], &rows(&changes), "No file differs."))
}

fn summary(id: &DeploymentId, changes: &DeploymentChanges) -> String {
    let against = changes.against.as_ref().map_or("nothing before it".to_owned(), ToString::to_string);
    let rest = if changes.truncated { "; not all are listed" } else { "" };
    format!(
        "{id} against {against}: {} added, {} changed, {} removed{rest}",
        count(changes.added_files.into(), "file"),
        changes.changed_files,
        changes.removed_files,
    )
}

/// Formats one row per file, sorted by path.
fn rows(changes: &DeploymentChanges) -> Vec<Vec<String>> {
    let row = |sign: &str, path: &str, now: Option<u64>, before: Option<u64>| {
        let shown = |bytes: Option<u64>| bytes.map(size).unwrap_or_default();
        vec![sign.to_owned(), path.to_owned(), shown(now), shown(before)]
    };
    let added = changes.added.iter().map(|file| row("+", &file.path, Some(file.size), None));
    let changed = changes.changed.iter().map(|file| row("~", &file.path, Some(file.size), Some(file.size_before)));
    let removed = changes.removed.iter().map(|file| row("-", &file.path, None, Some(file.size_before)));
    let mut rows: Vec<_> = added.chain(changed).chain(removed).collect();
    rows.sort_by(|a, b| a[1].cmp(&b[1]));
    rows
}

fn explained(name: &ProjectName, failure: Failure) -> Failure {
    match failure.kind {
        FailureClass::NotFound => failure.with_hint(format!("`svc deployments --project {name}` lists what there is.")),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use api::deployments::{AddedFile, ChangedFile, RemovedFile};

    use super::*;

    #[test]
    fn changes_are_listed_by_path() {
        let changes = DeploymentChanges {
            against: None,
            added: vec![AddedFile { path: "b".into(), size: 1 }],
            changed: vec![ChangedFile { path: "a".into(), size: 2, size_before: 3 }],
            removed: vec![RemovedFile { path: "c".into(), size_before: 4 }],
            added_files: 1,
            changed_files: 1,
            removed_files: 1,
            truncated: false,
        };
        let rows = rows(&changes);
        assert_eq!(rows[0], ["~", "a", "2 B", "3 B"]);
        assert_eq!(rows[1], ["+", "b", "1 B", ""]);
        assert_eq!(rows[2], ["-", "c", "", "4 B"]);
    }
}
