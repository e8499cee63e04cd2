//! Packs that nobody needs any more, and databases that are wrong about it: nothing is destroyed on one word.

mod allowance;
mod combinations;
mod disk;
mod dumps;
mod interrupted;
mod operator;
mod plans;

use std::sync::Arc;

use ::app::App;
use config::{CodeHostKind, Config};
use url::Url;

use crate::world::{OPERATOR_SECRET, World};

/// Admin's parts on a database and a store, without a program: jobs are called by hand.
async fn app(database: &Url, store: config::Store) -> App {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut config = Config::default();
    config.postgres.url = database.to_string();
    config.postgres.max_connections = 4;
    config.code_host.kind = CodeHostKind::Local;
    OPERATOR_SECRET.clone_into(&mut config.code_host.client_secret);
    config.secrets.master_key_file = World::master_key().await.to_owned();
    config.store = store;
    let (app, _tasks) = App::new(Arc::new(config)).unwrap();
    app
}
