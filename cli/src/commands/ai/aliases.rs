//! `svc ai aliases`.

use api::ai::{ModelAliasList, SetModelAliases};
use domain::{
    OrgName,
    gateway::{ModelAlias, ModelAliases},
};

use super::super::orgs;
use crate::{
    client::Client,
    output::{Output, table},
};

/// Parses `NAME=MODEL`, or `none`.
pub(super) fn parse(text: &str) -> Result<Option<ModelAlias>, String> {
    if text == "none" {
        return Ok(None);
    }
    let (name, model) =
        text.split_once('=').ok_or("a name and a model are needed, such as claude-*=svc/qwen3-coder-30b")?;
    Ok(Some(ModelAlias { name: name.to_owned(), model: model.to_owned() }))
}

pub(super) async fn run(
    wanted: Vec<Option<ModelAlias>>,
    org: Option<OrgName>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let path = format!("{}/ai/aliases", org.as_ref().map(|org| format!("/orgs/{org}")).unwrap_or_default());
    let answer = if wanted.is_empty() {
        client.get::<ModelAliasList>(&path).await
    } else {
        let aliases: Vec<_> = wanted.iter().flatten().cloned().collect();
        client.put::<ModelAliasList>(&path, &SetModelAliases { aliases: ModelAliases::try_from(aliases)? }).await
    };
    let answer = answer.map_err(|failure| match &org {
        Some(org) => orgs::unknown(org, failure),
        None => failure,
    })?;
    if !wanted.is_empty() {
        super::super::propagation::report(output, "In force", answer.propagation);
    }
    output.result(&answer.body, || {
        let rows: Vec<_> =
            answer.body.aliases.iter().map(|alias| vec![alias.name.clone(), alias.model.clone()]).collect();
        table(&["NAME", "MODEL"], &rows, "No names are given to models.")
    })
}
