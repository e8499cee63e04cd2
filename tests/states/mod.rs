//! States against acts: what becomes of a suspension, a kept name, a link, a token, when its subject deletes, moves or leaves what it
//! hangs on. [`table`] says it, a line for each pair, and the test here does each act to each state, on real programs.
//!
//! A state that is new takes a column of the table, an act that is new a line of each state, or the test fails.

mod acts;
mod scene;
mod table;

use std::collections::HashSet;

use futures_util::{StreamExt as _, stream};
use tempfile::TempDir;

use self::{
    scene::{Scene, Stack},
    table::{Act, Cell, Outcome, State, TABLE},
};
use crate::world::{World, name_server::NameServer};

/// Pairs that are tried at a time.
const AT_A_TIME: usize = 8;

#[tokio::test]
async fn every_state_outlives_or_ends_with_what_is_done_to_its_subject() {
    let pairs: Vec<(State, Act)> = TABLE.iter().map(|Cell(state, act, _)| (*state, *act)).collect();
    let known: HashSet<&(State, Act)> = pairs.iter().collect();
    assert_eq!(known.len(), pairs.len(), "a pair has two lines");
    for state in State::ALL {
        for act in Act::ALL {
            assert!(known.contains(&(*state, *act)), "{state:?} × {act:?} has no line");
        }
    }
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let local = World::start().await.ca().parent().unwrap().display().to_string();
    let world = World::builder()
        .play_money()
        .set("EDGE__HTTP_MODE", "serve")
        .set("ACME__RESOLVERS", names.address())
        .set("ACME__ISSUER", "local")
        .set("ACME__LOCAL_DIR", local)
        .set("LIMITS__PROBE_ALLOW_PRIVATE", true);
    let stack = Stack::new(world.start().await);
    let tried = TABLE.iter().enumerate().filter(|(_, Cell(_, _, outcome))| !matches!(outcome, Outcome::Never(_)));
    let wrong: Vec<String> = stream::iter(tried)
        .map(async |(number, Cell(state, act, expected))| {
            let scene = Scene::set(&stack, number, *state, *act).await;
            assert!(scene.holds().await, "{state:?} does not hold before {act:?}");
            let refusal = scene.act().await;
            let seen = match (refusal, scene.holds().await) {
                (Some(code), true) => {
                    let known = TABLE.iter().find_map(|cell| cell.2.code().filter(|known| *known == code));
                    Outcome::Refused(known.unwrap_or("another code"))
                }
                (Some(code), false) => panic!("{state:?} × {act:?}: refused with {code}, and the state has ended"),
                (None, true) => Outcome::Stays,
                (None, false) => Outcome::Ends,
            };
            (seen != *expected).then(|| format!("{state:?} × {act:?}: {expected:?} expected, {seen:?} seen"))
        })
        .buffer_unordered(AT_A_TIME)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
