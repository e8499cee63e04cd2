//! The configurations that `docs/clients.md` shows.

const PAGE: &str = include_str!("../../../docs/clients.md");
/// What stands on the page for the gateway's address.
const ADDRESS: &str = "https://ai.svc.localhost:8443";
/// What stands on the page for a key.
const KEY: &str = "svc_…";
/// What stands on the page for a model.
pub(super) const MODEL: &str = "svc/qwen3-coder-30b";

/// The configuration under a heading of the page, for a gateway and a key.
pub(super) fn configuration(heading: &str, address: &str, key: &str) -> String {
    let section =
        PAGE.split_once(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("the page has no {heading}")).1;
    let section = section.split("\n### ").next().unwrap();
    let block = section.split_once("\n```").and_then(|(_, rest)| rest.split_once("\n```")).expect("a block").0;
    // Behind the name of the language.
    let (_, text) = block.split_once('\n').unwrap();
    assert!(text.contains(ADDRESS), "{heading}: its configuration has no address of the gateway");
    format!("{}\n", text.replace(ADDRESS, address).replace(KEY, key))
}

#[test]
fn the_page_names_no_client_that_is_not_tested() {
    let tested: Vec<_> = super::sdks::headings().chain(super::agents::headings()).collect();
    for heading in PAGE.lines().filter_map(|line| line.strip_prefix("### ")) {
        assert!(tested.contains(&heading), "no test has the configuration of {heading}");
    }
}
