//! `certs renew`

use std::fmt::Write as _;

use anyhow::Context as _;
use certs::local_ca;
use config::Config;
use db::certificates::{operations, renewals};
use domain::Clock;
use serde::Serialize;

use super::{NO_DATABASE, Outcome, database};

/// The outcome of a demand for renewals.
#[derive(Serialize)]
struct Renewals {
    /// The certificates whose renewal is due now.
    due: u64,
    /// The names without a certificate that could be renewed.
    refused: Vec<String>,
}

pub(super) async fn run(config: &Config, names: &[String], all: bool, json: bool) -> anyhow::Result<Outcome> {
    let (now, db) = (Clock::system().now(), database(config)?);
    let mut renewals = Renewals { due: 0, refused: Vec::new() };
    if all {
        renewals.due = operations::renew_all(&db, now).await.context(NO_DATABASE)?;
    }
    for name in local_ca::hostnames(names)? {
        if renewals::renew_now(&db, &name, now).await.context(NO_DATABASE)? {
            renewals.due += 1;
        } else {
            renewals.refused.push(name);
        }
    }
    let text = || {
        let mut said = match renewals.due {
            0 => "no renewal is due".to_owned(),
            1 => "1 renewal is due now; admin begins within a minute".to_owned(),
            due => format!("{due} renewals are due now; admin begins within a minute, as fast as the authority allows"),
        };
        for name in &renewals.refused {
            let _ = write!(
                said,
                "\n{name} has no certificate that admin looks after, or its renewal is under way already: see \
                 `certs list`, and `certs issue {name}` for a first one"
            );
        }
        said
    };
    Outcome::shown(&renewals, json, text, renewals.refused.is_empty())
}
