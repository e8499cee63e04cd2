//! `svc ai requests`.

use api::usage::{AiRequest, AiRequests};
use domain::{OrgName, usage::Ending};

use crate::{
    client::Client,
    failure::Failure,
    output::{Output, money::euros},
};

const PAGE: usize = 100;

pub(super) async fn list(limit: u32, org: Option<OrgName>, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = super::usage::path(org, "/requests", None);
    let requests = read(&path, usize::try_from(limit)?, client).await?;
    let columns = ["TIME", "MODEL", "PROVIDER", "READ", "CACHED", "WRITTEN", "REASONING", "EUR", "ENDED", "KEY"];
    output.list("requests", &requests, &columns, "No completions in the last thirty days.", |request| {
        let number = |number: u64| indicatif::HumanCount(number).to_string();
        let known = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), number);
        vec![
            request.created_at.to_string(),
            request.model.clone(),
            request.provider.clone(),
            number(request.prompt_tokens),
            known(request.cached_tokens),
            number(request.completion_tokens),
            known(request.reasoning_tokens),
            euros(request.cost_microcents),
            request.ended.map_or("-", Ending::as_str).to_owned(),
            request.key.to_string(),
        ]
    })
}

async fn read(path: &str, wanted: usize, client: &Client) -> Result<Vec<AiRequest>, Failure> {
    let (mut requests, mut cursor) = (Vec::new(), String::new());
    while requests.len() < wanted {
        let limit = (wanted - requests.len()).min(PAGE);
        let page = client.get::<AiRequests>(&format!("{path}?limit={limit}{cursor}")).await?.body;
        requests.extend(page.requests);
        let Some(next) = page.next_cursor else { break };
        cursor = format!("&cursor={next}");
    }
    Ok(requests)
}
