//! The output of `admin doctor` and `certs doctor`, one check per line with its finding and remedy, and the explanation
//! of the error that ends a program: [`explain_exit`].
//!
//! Every check has a time limit ([`within`]), because a doctor runs while things are down. Start with [`CheckReport`].

mod plain;

use std::time::Duration;

use config::Config;
use db::upkeep::{identity::is_unmigrated, master_key};
use secrets::{FileExposure, MasterKey};
use serde::Serialize;
use tokio::time::timeout;

pub use self::plain::{explain_exit, explain_postgres, explain_redis};

const KEY_WITHIN: Duration = Duration::from_secs(5);

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckLevel {
    /// Everything is fine.
    Ok,
    /// It works, but needs attention.
    Warn,
    /// It does not work.
    Fail,
}

/// A check and its outcome.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The subject of the check.
    pub name: String,
    /// The result.
    pub level: CheckLevel,
    /// Whether the check did not fail.
    pub ok: bool,
    /// The finding, or the problem.
    pub message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A problem and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFlaw {
    level: CheckLevel,
    message: String,
    fix: String,
}

/// The outcome of a check: a finding or a flaw.
pub type CheckOutcome = Result<String, CheckFlaw>;

impl From<(String, String)> for CheckFlaw {
    fn from((message, fix): (String, String)) -> Self {
        Self { level: CheckLevel::Fail, message, fix }
    }
}

/// Returns the outcome of a failed check.
pub fn fail(message: impl Into<String>, fix: impl Into<String>) -> CheckOutcome {
    Err(CheckFlaw { level: CheckLevel::Fail, message: message.into(), fix: fix.into() })
}

/// Returns the outcome of a check whose finding needs attention.
pub fn warn(message: impl Into<String>, fix: impl Into<String>) -> CheckOutcome {
    Err(CheckFlaw { level: CheckLevel::Warn, message: message.into(), fix: fix.into() })
}

/// Fails a check that takes longer than `limit`.
pub async fn within(limit: Duration, check: impl Future<Output = CheckOutcome>) -> CheckOutcome {
    timeout(limit, check).await.unwrap_or_else(|_| {
        fail(
            format!("no answer within {} s", limit.as_secs()),
            "is it reachable from this machine, and not overloaded?",
        )
    })
}

/// The checks, in the order in which they are printed.
#[derive(Debug, Default)]
pub struct CheckReport(Vec<Check>);

impl CheckReport {
    /// Adds a check.
    pub fn add<E: Into<CheckFlaw>>(&mut self, name: impl Into<String>, finding: Result<String, E>) {
        self.add_with(name, finding.map(|message| (message, ())));
    }

    /// Adds a check and returns the value that further checks need.
    pub fn add_with<T, E: Into<CheckFlaw>>(
        &mut self,
        name: impl Into<String>,
        finding: Result<(String, T), E>,
    ) -> Option<T> {
        let (level, message, fix, found) = match finding.map_err(Into::into) {
            Ok((message, found)) => (CheckLevel::Ok, message, None, Some(found)),
            Err(CheckFlaw { level, message, fix }) => (level, message, Some(fix), None),
        };
        self.0.push(Check { name: name.into(), level, ok: level != CheckLevel::Fail, message, fix });
        found
    }

    /// Returns the checks.
    pub fn checks(&self) -> &[Check] {
        &self.0
    }

    /// Returns whether no check failed.
    pub fn is_good(&self) -> bool {
        self.0.iter().all(|check| check.ok)
    }

    /// Formats the checks for people, one per line.
    pub fn lines(&self) -> String {
        let line = |check: &Check| {
            let mark = match check.level {
                CheckLevel::Ok => "OK  ",
                CheckLevel::Warn => "WARN",
                CheckLevel::Fail => "FAIL",
            };
            let fix = check.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
            format!("{mark}  {:<26}  {}{fix}", check.name, check.message)
        };
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Formats the checks as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_default()
    }
}

/// Returns whether a check failed.
pub fn is_failure(finding: &CheckOutcome) -> bool {
    finding.as_ref().is_err_and(|flaw| flaw.level == CheckLevel::Fail)
}

/// Checks that the master key is readable and the database's, and that others can read neither it nor an edge's key.
pub async fn master_key(config: &Config) -> CheckOutcome {
    let found = check_master_key(config).await?;
    let files = [Some(&config.secrets.master_key_file), config.secrets.edge_key_file.as_ref()];
    for file in files.into_iter().flatten() {
        if let Some(complaint) = FileExposure::for_file(file).ok().and_then(|exposure| exposure.warning(file)) {
            return warn(found, complaint);
        }
    }
    Ok(found)
}

async fn check_master_key(config: &Config) -> CheckOutcome {
    let file = &config.secrets.master_key_file;
    let master = match MasterKey::load(file) {
        Ok(master) => master,
        Err(error) => {
            return fail(
                error.to_string(),
                "restore the key file from your copy (secrets.master_key_file); without it nothing sealed opens again",
            );
        }
    };
    let keys = master.keys().iter().map(secrets::master_key::MasterKeyBytes::id).collect::<Vec<_>>().join(", ");
    let Ok(db) = db::connect(&config.postgres, &config.postgres.url) else {
        return warn(
            format!("{} holds key {keys}", file.display()),
            "whether it is the database's is not known: see `postgres`",
        );
    };
    match timeout(KEY_WITHIN, master_key::check(&db, &master, false)).await {
        Ok(Ok(None)) => Ok(format!("{} holds key {keys}, and opens what the database has", file.display())),
        Ok(Ok(Some(wrong))) => fail(
            format!("{} is not the database's: {wrong}", file.display()),
            "put that key's file in its place, or add the key to the file as another line",
        ),
        Ok(Err(error)) if is_unmigrated(&error) => {
            Ok(format!("{} holds key {keys}; the database is not migrated yet", file.display()))
        }
        Ok(Err(_)) | Err(_) => warn(
            format!("{} holds key {keys}", file.display()),
            "whether it is the database's is not known: Postgres is away",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_report_is_good_unless_something_failed_and_no_check_hangs() {
        let mut report = CheckReport::default();
        report.add("first", CheckOutcome::Ok("fine".to_owned()));
        report.add("second", warn("so so", "see to it"));
        assert!(report.is_good());
        report.add("third", within(Duration::from_secs(5), std::future::pending()).await);
        assert!(!report.is_good());
        let lines = report.lines();
        let marks: Vec<&str> = lines.lines().map(|line| &line[..4]).collect();
        assert_eq!(marks, ["OK  ", "WARN", "FAIL"]);
        assert!(lines.contains("so so; see to it") && lines.contains("no answer within 5 s"), "{lines}");
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!((&json[1]["level"], &json[1]["ok"], &json[2]["ok"]), (&"warn".into(), &true.into(), &false.into()));
    }
}
