//! Explains errors of libraries in plain words: the problem, and the next step.
//!
//! A program passes the error that ends it to [`explain_exit`]: the contexts that describe the attempt stay, followed by
//! the words of this module instead of the library's. A doctor asks for one part: [`explain_postgres`], [`explain_redis`].

use std::{error::Error as StdError, path::Path};

use config::{Config, Store, without_password};
use live::RedisError;
use sqlx::postgres::PgDatabaseError;

/// The beginnings of Postgres errors, as sqlx writes them.
const OF_POSTGRES: [&str; 6] = [
    NO_CONNECTION,
    "error communicating with database: ",
    RETURNED,
    "error occurred while attempting to establish a TLS connection: ",
    "encountered unexpected or invalid data: ",
    "attempted to communicate with a crashed background worker",
];
const NO_CONNECTION: &str = "pool timed out while waiting for an open connection";
const RETURNED: &str = "error returned from database: ";
/// The beginnings of errors of a store or a backup's location, as the crate `packs` writes them.
const OF_FOLDER: &str = "the folder: ";
const OF_BUCKET: &str = "the bucket: ";

/// Messages of the operating system, and their meanings.
const OF_SYSTEM: [(&str, &str); 9] = [
    ("Address already in use (os error 98)", "another program listens there; `ss -ltnp` names it"),
    (
        "Cannot assign requested address (os error 99)",
        "this machine does not have that address; `ip address` lists those that it has",
    ),
    ("Connection refused (os error 111)", "nothing listens there; is it running?"),
    ("Permission denied (os error 13)", "this user may not; `ls -l` shows who may, and `id` who this is"),
    ("Operation not permitted (os error 1)", "this user may not; `ls -l` shows who may, and `id` who this is"),
    ("No such file or directory (os error 2)", "there is no such file or folder; make it, or set the right path"),
    ("Not a directory (os error 20)", "a part of this path is a file and no folder"),
    ("No space left on device (os error 28)", "the disk is full; `df -h` shows which, and `du` what fills it"),
    ("Read-only file system (os error 30)", "the disk is mounted read-only; `mount` lists what is mounted how"),
];

/// Explains the error that ends a program, with the next step. `file` is the value of `--config`. Connects to Postgres
/// once more if the reason for a missing connection is unknown.
pub async fn explain_exit(error: anyhow::Error, config: &Config, file: Option<&Path>) -> anyhow::Error {
    let said = telemetry::one_line(&error);
    let place = PostgresPlace::from_message(config, &said);
    let away =
        if said.contains(NO_CONNECTION) { db::connect_once(&config.postgres, place.url).await.err() } else { None };
    let mut said = explain(&error, &said, away.as_ref(), config, &place);
    if let Some(missing) = config::missing_file(file) {
        said = format!(
            "{said} (no configuration file was found at {}, so that defaults and variables SVC__… are in use)",
            missing.display()
        );
    }
    anyhow::Error::msg(said)
}

fn explain(
    error: &anyhow::Error,
    said: &str,
    away: Option<&sqlx::Error>,
    config: &Config,
    place: &PostgresPlace<'_>,
) -> String {
    if let Some(start) = OF_POSTGRES.iter().filter_map(|raw| said.find(raw)).min() {
        let code = error.chain().find_map(postgres_code);
        let words = match away {
            Some(away) => explain_postgres(away),
            None => postgres_words(&said[start..], code.as_deref()),
        };
        return format!("{}PostgreSQL at {} ({}): {words}", &said[..start], without_password(place.url), place.key);
    }
    if let Some(of_redis_error) = error.chain().find_map(|cause| cause.downcast_ref::<RedisError>()) {
        let raw = of_redis_error.to_string();
        let start = said.find(&raw).unwrap_or(said.len());
        let (url, words) = (without_password(&config.redis.url), explain_redis(of_redis_error));
        return format!("{}Redis at {url} (redis.url): {words}", &said[..start]);
    }
    if let Some(start) = said.find(OF_BUCKET) {
        let (section, store) = store_section(said, config);
        let words = bucket_words(&said[start..], section);
        return format!("{}the bucket {} ({section}.url): {words}", &said[..start], store.url);
    }
    if let Some(start) = said.find(OF_FOLDER) {
        let (section, store) = store_section(said, config);
        let rest = explain_system(&said[start + OF_FOLDER.len()..]);
        return format!("{}the folder {} ({section}.url): {rest}", &said[..start], store.url);
    }
    explain_system(said)
}

/// The URL of the failed Postgres connection, and its configuration key.
struct PostgresPlace<'c> {
    url: &'c str,
    key: &'static str,
}

impl<'c> PostgresPlace<'c> {
    fn from_message(config: &'c Config, said: &str) -> Self {
        let is_direct = said.contains("brought up to date") || said.contains("postgres.direct_url");
        match &config.postgres.direct_url {
            Some(url) if is_direct => Self { url, key: "postgres.direct_url" },
            _ => Self { url: &config.postgres.url, key: "postgres.url" },
        }
    }
}

/// Returns the section of the store that an error belongs to, by what was attempted.
fn store_section(said: &str, config: &Config) -> (&'static str, Store) {
    match &config.backup.url {
        Some(url) if said.contains("backup") => ("backup", config.backup.store_at(url.clone(), &config.store)),
        _ => ("store", config.store.clone()),
    }
}

/// Explains an error of Postgres, with the next step.
pub fn explain_postgres(error: &sqlx::Error) -> String {
    postgres_words(&error.to_string(), postgres_code(error).as_deref())
}

fn postgres_code(cause: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(error) = cause.downcast_ref::<sqlx::Error>() {
        return Some(error.as_database_error()?.code()?.into_owned());
    }
    Some(cause.downcast_ref::<PgDatabaseError>()?.code().to_owned())
}

fn postgres_words(raw: &str, code: Option<&str>) -> String {
    if raw.starts_with(NO_CONNECTION) {
        return "it gave no connection in time; all of its connections are in use, or it does not answer: see `admin doctor`, and raise \
                max_connections of PostgreSQL or lower postgres.max_connections"
            .to_owned();
    }
    let Some(message) = raw.strip_prefix(RETURNED) else {
        let (_, why) = raw.split_once(": ").unwrap_or(("", raw));
        if why.contains("failed to lookup address") {
            return format!("its name does not resolve ({why}); does the URL name the right machine?");
        }
        if raw.contains("TLS") {
            return format!(
                "a connection with TLS cannot be made ({why}); does sslmode fit, and is postgres.ca_file the authority of its certificate?"
            );
        }
        return format!("it cannot be reached: {}", explain_system(why));
    };
    // The location in Postgres's source is of no use to an operator.
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    let code = code.unwrap_or_else(|| guess_code(message));
    let next = match code {
        "28P01" => "set the right password in the URL, or give the role that one (`ALTER ROLE … PASSWORD`)",
        "28000" => {
            "make the role (`CREATE ROLE … LOGIN`), let it in from this machine (pg_hba.conf), or set another in the URL"
        }
        "3D000" => "make the database (`CREATE DATABASE`), or set the right name in the URL",
        "42501" => {
            "use a role that may, or grant it: admin's owns the tables, and `admin grant-edge ROLE` grants an edge's what it needs"
        }
        "42P01" | "42703" | "42883" => "the database is not of this version: run `admin migrate`",
        "25006" => "this server follows another one: let the URL lead to the primary",
        "53100" => "make room on the disk of PostgreSQL",
        "53300" => {
            "raise max_connections of PostgreSQL, or lower postgres.max_connections (docs/operate/configure.md, on connections)"
        }
        "57P03" | "57P01" | "55000" => "wait until it is up, and try again",
        "55P03" | "57014" => "something else holds what this needs, or the machine is overloaded: try again",
        _ => "PostgreSQL's own log may say more",
    };
    format!("{message}; {next}")
}

/// Guesses the error code from a message, when nothing else is left of the error.
fn guess_code(message: &str) -> &'static str {
    let is_there = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match message {
        _ if is_there(&["password authentication failed"]) => "28P01",
        _ if is_there(&["pg_hba.conf", "not permitted to log in"]) || message.starts_with("role ") => "28000",
        _ if message.starts_with("database ") && message.ends_with("does not exist") => "3D000",
        _ if is_there(&["permission denied"]) => "42501",
        _ if message.ends_with("does not exist") => "42P01",
        _ if is_there(&["read-only"]) => "25006",
        _ if is_there(&["No space left"]) => "53100",
        _ if is_there(&["too many c", "connection slots"]) => "53300",
        _ => "",
    }
}

/// Explains an error of Redis, with the next step.
pub fn explain_redis(error: &RedisError) -> String {
    let raw = error.to_string();
    let is_there = |words: &[&str]| words.iter().any(|word| raw.contains(word));
    if error.is_connection_refusal() || is_there(&["Connection refused"]) {
        "nothing listens there; is it running, and does redis.url lead there?".to_owned()
    } else if is_there(&["failed to lookup address"]) {
        "its name does not resolve; does redis.url name the right machine?".to_owned()
    } else if is_there(&[
        "WRONGPASS",
        "invalid username-password",
        "invalid password",
        "Password authentication failed",
    ]) {
        "it does not take the user or the password of redis.url; set them right, for an edge by what `admin redis-acl` prints".to_owned()
    } else if is_there(&["NOAUTH", "Authentication required"]) {
        "it wants a password: put it into redis.url (redis://:PASSWORD@HOST)".to_owned()
    } else if is_there(&["NOPERM", "no permissions"]) {
        format!(
            "its user may not do that ({raw}); `admin redis-acl` prints the rules of an edge's user, and admin's needs all rights"
        )
    } else if is_there(&["READONLY"]) {
        "it follows another Redis; let redis.url lead to the one that is written to".to_owned()
    } else if error.is_timeout() {
        "it does not answer in time; is it overloaded, or a firewall in between?".to_owned()
    } else {
        format!("{}; `redis-cli -u` with redis.url tries the connection out", explain_system(&raw))
    }
}

fn bucket_words(raw: &str, section: &str) -> String {
    let is_there = |words: &[&str]| words.iter().any(|word| raw.contains(word));
    if is_there(&["NoSuchBucket"]) {
        format!("there is no such bucket; make it, or set {section}.url right")
    } else if is_there(&["InvalidAccessKeyId"]) {
        format!("it does not know the key {section}.access_key; set one that it knows")
    } else if is_there(&["SignatureDoesNotMatch"]) {
        format!("{section}.secret_key is not the one of {section}.access_key, or {section}.region is not the bucket's")
    } else if is_there(&["AccessDenied", "403 Forbidden"]) {
        format!(
            "the key {section}.access_key may not do that; give its user the right (deploy/s3/edge-policy.json is what an edge needs)"
        )
    } else if is_there(&["error sending request", "Connection refused", "dns error"]) {
        format!("it does not answer; does {section}.endpoint lead there, and can this machine reach it?")
    } else {
        let shown = raw.strip_prefix(OF_BUCKET).unwrap_or(raw);
        format!("{}; look at {section}.endpoint and its log", shown.lines().next().unwrap_or_default())
    }
}

/// Replaces messages of the operating system by their meanings.
fn explain_system(said: &str) -> String {
    let mut said = said.to_owned();
    for (raw, words) in OF_SYSTEM {
        said = said.replace(raw, words);
    }
    said
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context as _;

    use super::*;

    fn said(error: &anyhow::Error) -> String {
        let mut config = Config::default();
        config.postgres.url = "postgres://svc:hidden@db.internal/svc".to_owned();
        config.redis.url = "redis://:hidden@redis.internal".to_owned();
        let line = telemetry::one_line(error);
        let place = PostgresPlace::from_message(&config, &line);
        explain(error, &line, None, &config, &place)
    }

    fn io_error(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    #[test]
    fn what_a_library_says_becomes_a_place_a_reason_and_a_next_step() {
        let returned =
            |message: &str| anyhow::anyhow!("{RETURNED}{message} at line 948").context("plans cannot be read");
        let redis = |text: &'static str| anyhow::Error::from(RedisError::from(io::Error::other(text)));
        let postgres = "PostgreSQL at postgres://svc@db.internal/svc (postgres.url): ";
        for (error, wanted) in [
            (sqlx::Error::PoolTimedOut.into(), format!("{postgres}it gave no connection in time")),
            (sqlx::Error::Io(io_error(111)).into(), format!("{postgres}it cannot be reached: nothing listens there")),
            (
                returned("password authentication failed for user \"svc\""),
                format!(
                    "plans cannot be read: {postgres}password authentication failed for user \"svc\"; set the right password"
                ),
            ),
            (returned("database \"svcc\" does not exist"), "; make the database".to_owned()),
            (returned("sorry, too many clients already"), "; raise max_connections".to_owned()),
            (returned("cannot execute INSERT in a read-only transaction"), "; this server follows another".to_owned()),
            (returned("permission denied for table users"), "; use a role that may".to_owned()),
            (returned("relation \"users\" does not exist"), "run `admin migrate`".to_owned()),
            (
                redis("WRONGPASS invalid username-password pair"),
                "Redis at redis://redis.internal (redis.url): it does not take".to_owned(),
            ),
            (redis("NOAUTH Authentication required."), "it wants a password".to_owned()),
            (redis("NOPERM User x has no permissions to run the 'get' command"), "`admin redis-acl` prints".to_owned()),
            (
                Err::<(), _>(io_error(98)).context("admin.listen: cannot listen on 127.0.0.1:80").unwrap_err(),
                "another program listens there; `ss -ltnp`".to_owned(),
            ),
            (
                anyhow::anyhow!("the bucket: Generic S3 error: <Code>NoSuchBucket</Code>"),
                "(store.url): there is no such bucket".to_owned(),
            ),
            (
                anyhow::anyhow!("the bucket: Generic S3 error: <Code>SignatureDoesNotMatch</Code>"),
                "store.secret_key is not the one".to_owned(),
            ),
            (anyhow::anyhow!("the folder: {}", io_error(28)), "(store.url): the disk is full; `df -h`".to_owned()),
        ] {
            let said = said(&error);
            assert!(said.contains(&wanted), "{said}\nlacks\n{wanted}");
            for raw in ["os error", "at line", "hidden", "error returned", "pool timed out"] {
                assert!(!said.contains(raw), "{said}");
            }
        }
    }
}
