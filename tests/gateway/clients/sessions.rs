//! Long sessions of the two agents that people use most, through the gateway in front of the shipped providers.

use std::fs;

use serde_json::Value;

use super::{run, vendors::Vendors};
use crate::{
    gateway::{claude_code::claude_code, codex::codex},
    stubs::provider::vendor::Ledger,
};

/// The turns of a session, each with a call of the shell: a few, or as many as `SVC_TEST_TURNS` says.
fn turns() -> usize {
    std::env::var("SVC_TEST_TURNS").map_or(3, |turns| turns.parse().unwrap())
}

/// What stands in the file that a session has made.
fn steps(turns: usize) -> String {
    (1..=turns).flat_map(|turn| ["step".to_owned(), turn.to_string(), "\n".to_owned()]).collect()
}

/// The tokens of all that was served.
fn sums<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> (u64, u64) {
    let served = ledgers.into_iter().flat_map(|ledger| &ledger.served);
    served.fold((0, 0), |(prompt, answer), served| (prompt + served.prompt, answer + served.completion))
}

#[tokio::test]
async fn codex_works_through_a_session() {
    let (mut vendors, turns) = (Vendors::start().await, turns());
    let home = vendors.world.folder().join("codex");
    let base_url = format!("{}/v1", vendors.address());
    let with_key = [("SVC_AI_KEY", vendors.key.as_str())];
    let task = format!("Make made.txt in {turns} steps.");
    // A task, and another one in the same session, with all that came back.
    for (arguments, expected) in
        [(&["--json"][..], steps(turns)), (&["--json", "resume", "--last"][..], steps(turns).repeat(2))]
    {
        let output = run(codex(&home, &base_url, arguments, &task), &vendors.world, &vendors.key, &with_key).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(fs::read_to_string(home.join("project/made.txt")).unwrap(), expected, "{said}");
    }
    let ledgers = vendors.settle("Codex").await;
    assert_eq!(ledgers.values().map(|ledger| ledger.served.len()).sum::<usize>(), 2 * (turns + 1));
}

#[tokio::test]
async fn claude_code_works_through_a_session() {
    let (mut vendors, turns) = (Vendors::start().await, turns());
    let home = vendors.world.folder().join("claude");
    let task = format!("Make made.txt in {turns} steps.");
    let mut shown = (0, 0);
    for (arguments, expected) in [(&[][..], steps(turns)), (&["--continue"][..], steps(turns).repeat(2))] {
        let told = claude_code(&home, &vendors.address(), &vendors.key, arguments, &task);
        let output = run(told, &vendors.world, &vendors.key, &[]).await;
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(fs::read_to_string(home.join("project/made.txt")).unwrap(), expected, "{stdout}");
        let said: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
        assert_eq!(said["is_error"], false, "{said}");
        let usage = |name: &str| said["usage"][name].as_u64().unwrap();
        let read = usage("input_tokens") + usage("cache_read_input_tokens") + usage("cache_creation_input_tokens");
        shown = (shown.0 + read, shown.1 + usage("output_tokens"));
    }
    let ledgers = vendors.settle("Claude Code").await;
    // What it shows its user is what the ledger has.
    assert_eq!(shown, sums(ledgers.values()));
}
