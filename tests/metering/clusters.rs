//! A Redis cluster whose nodes give way to others while completions are asked for without a break.

use super::{
    load::{assert_budget, under_load},
    served::without_limits,
    *,
};

/// The key that names the edges: in a slot of its own.
const EDGES: &str = "svc:ai:edges";

async fn account_of(metered: &Metered) -> String {
    metered.world.sql_text("SELECT id FROM users WHERE vcs_login = 'ada'").await
}

/// Some of an account's keys are at one node then, and some at the other.
#[tokio::test]
async fn slots_move_between_nodes_of_redis_under_load() {
    let metered = Metered::start_with(|builder| without_limits(builder).redis_cluster()).await;
    let account = account_of(&metered).await;
    let metered = under_load(metered, async |world, load, _| {
        for tag in [&account, EDGES] {
            let from = world.redis_node_of(tag).await;
            world.move_redis_slot(tag, (from + 1) % 3, async || load.goes_on().await).await;
        }
    })
    .await;
    assert_budget(&metered).await;
}

/// For a moment two nodes have the account's keys: the one that comes back does not know yet that its copy has taken its place,
/// and one whose copy takes its place of its own accord goes on until it is told.
#[tokio::test]
async fn nodes_of_redis_whose_copies_took_their_places_come_back_under_load() {
    let metered = Metered::start_with(|builder| without_limits(builder).redis_cluster_with_copies()).await;
    let account = account_of(&metered).await;
    let metered = under_load(metered, async |world, load, times| {
        let node = world.redis_node_of(&account).await;
        let is_replaced = async || world.redis_node_of(&account).await != node;
        if times % 2 == 0 {
            world.signal_redis_node(node, "STOP");
            eventually(BACKGROUND, "its copy has taken its place", is_replaced).await;
            load.is_under_way().await;
            world.signal_redis_node(node, "CONT");
        } else {
            world.take_redis_node_over(node).await;
            eventually(BACKGROUND, "its copy has taken its place", is_replaced).await;
        }
        let is_followed = async || {
            let follower = world.redis_node_of(&account).await;
            follower != node && world.is_redis_node_copied(follower).await
        };
        eventually(BACKGROUND, "it is the copy of what was its copy", is_followed).await;
    })
    .await;
    assert_budget(&metered).await;
}
