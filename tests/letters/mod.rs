//! Letters of the queue: what is told by mail, whatever happens on the way; how people unsubscribe; how operators look into it.

mod attachments;

mod operator;
mod queue;
mod tokens;
mod unsubscribing;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    BACKGROUND,
    world::{
        Actor, World, eventually,
        mailbox::{Mailbox, Strict, header},
    },
};

/// A world whose mail goes to a server that can be told what to refuse.
struct Post {
    world: World,
    mailbox: Mailbox,
    _folder: TempDir,
}

impl Post {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mailbox = Mailbox::strict(folder.path(), Strict::default()).await;
        let world = World::builder().set("MAIL__URL", mailbox.url()).start().await;
        Self { world, mailbox, _folder: folder }
    }

    /// Waits until this many letters have arrived, and returns them.
    async fn letters(&self, count: usize) -> Vec<Value> {
        eventually(BACKGROUND, "the letters arrive", async || self.mailbox.letters().await.len() >= count).await;
        let letters = self.mailbox.letters().await;
        assert_eq!(letters.len(), count, "{letters:#?}");
        letters
    }

    /// Waits until the queue's only letter is as `condition` says.
    async fn eventually(&self, condition: &str) {
        let count = format!("SELECT count(*) FROM letters WHERE {condition}");
        eventually(BACKGROUND, condition, async || self.world.sql_number(&count).await == 1).await;
    }

    /// Has every letter that waits be due, as if its time had come.
    async fn pass_time(&self) {
        self.world.sql("UPDATE letters SET next_attempt_at = created_at WHERE state = 'waiting'").await;
    }
}

/// Makes a token, of which a letter tells, and returns its id.
async fn create_token(actor: &Actor, label: &str) -> String {
    let created = actor.post("/tokens").json(&json!({ "kind": "ai", "label": label })).await.created();
    created["id"].as_str().unwrap().to_owned()
}

fn subject(letter: &Value) -> &str {
    header(letter, "subject")[0]
}
