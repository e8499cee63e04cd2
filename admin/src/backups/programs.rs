//! The programs of PostgreSQL: choosing the right version, and connecting it to the server.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Context as _;
use percent_encoding::percent_decode_str;
use tokio::process::{Child, Command};
use url::Url;

/// The folders where packages of distributions install the programs of a version.
const FOLDERS: [(&str, &str); 2] = [("/usr/lib/postgresql/", "/bin"), ("/usr/pgsql-", "/bin")];

/// Prepares the run of a program of the server's version.
pub(super) async fn command(
    config: &config::Config,
    name: &str,
    server: i32,
    arguments: &[&str],
) -> anyhow::Result<Command> {
    let program = find_program(config.backup.postgres_programs.as_deref(), name, server).await?;
    let mut command = Command::new(program);
    // The URL contains a password, which arguments would reveal to everybody on the machine.
    command
        .args(arguments)
        .envs(libpq_environment(config.postgres.direct_url.as_ref().unwrap_or(&config.postgres.url))?)
        .kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}

pub(super) fn start(command: &mut Command) -> anyhow::Result<Child> {
    let program = command.as_std().get_program().display().to_string();
    command.spawn().with_context(|| format!("{program} cannot be started"))
}

/// Finds the program of the server's major version: other versions may refuse the server, or write what the server's
/// own cannot read.
async fn find_program(configured: Option<&Path>, name: &str, server: i32) -> anyhow::Result<PathBuf> {
    if let Some(folder) = configured {
        let program = folder.join(name);
        let found = major_version(&program).await;
        anyhow::ensure!(
            found == Some(server),
            "backup.postgres_programs: {} is not of PostgreSQL {server}, as the server is",
            program.display()
        );
        return Ok(program);
    }
    let usual = FOLDERS.map(|(before, after)| PathBuf::from(format!("{before}{server}{after}")).join(name));
    for program in usual.into_iter().chain([PathBuf::from(name)]) {
        if major_version(&program).await == Some(server) {
            return Ok(program);
        }
    }
    anyhow::bail!(
        "there is no {name} of PostgreSQL {server}, which the server is: install its client programs \
         (postgresql-client-{server}), or set backup.postgres_programs to their folder"
    )
}

/// Returns the major version of a program; `None` if it does not run.
async fn major_version(program: &Path) -> Option<i32> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().await.ok()?;
    parse_major(&String::from_utf8(output.stdout).ok()?)
}

/// Parses `pg_dump (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)`.
fn parse_major(said: &str) -> Option<i32> {
    let version = said.split_once(") ")?.1;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Returns the environment with which libpq connects to the server of `postgres.url` or `postgres.direct_url`. Anything
/// that the URL omits is left to variables that are already set, as sqlx does.
fn libpq_environment(url: &str) -> anyhow::Result<Vec<(&'static str, String)>> {
    let url: Url = url.parse().context("postgres.url")?;
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut variables = vec![("PGAPPNAME", "svc backup".to_owned()), ("PGCONNECT_TIMEOUT", "10".to_owned())];
    let mut set = |variable, value: String| {
        variables.retain(|(known, _)| *known != variable);
        variables.push((variable, value));
    };
    let parts = [
        ("PGHOST", url.host_str().unwrap_or_default()),
        ("PGUSER", url.username()),
        ("PGPASSWORD", url.password().unwrap_or_default()),
        ("PGDATABASE", url.path().trim_start_matches('/')),
    ];
    for (variable, text) in parts {
        if !text.is_empty() {
            set(variable, decode(text.trim_start_matches('[').trim_end_matches(']')));
        }
    }
    if let Some(port) = url.port() {
        set("PGPORT", port.to_string());
    }
    for (key, value) in url.query_pairs() {
        let variable = match &*key {
            "host" => "PGHOST",
            "hostaddr" => "PGHOSTADDR",
            "port" => "PGPORT",
            "dbname" => "PGDATABASE",
            "user" => "PGUSER",
            "password" => "PGPASSWORD",
            "sslmode" | "ssl-mode" => "PGSSLMODE",
            "sslrootcert" | "ssl-root-cert" | "ssl-ca" => "PGSSLROOTCERT",
            "sslcert" | "ssl-cert" => "PGSSLCERT",
            "sslkey" | "ssl-key" => "PGSSLKEY",
            "options" => "PGOPTIONS",
            _ => continue,
        };
        set(variable, value.into_owned());
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_becomes_an_environment() {
        let of = |url| {
            let mut variables = libpq_environment(url).unwrap();
            variables.retain(|(variable, _)| !["PGAPPNAME", "PGCONNECT_TIMEOUT"].contains(variable));
            variables.sort_unstable();
            variables.into_iter().map(|(variable, value)| format!("{variable}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            of("postgres://svc:p%40ss@db.example:5433/svc?sslmode=verify-full&sslrootcert=/etc/ca.pem"),
            [
                "PGDATABASE=svc",
                "PGHOST=db.example",
                "PGPASSWORD=p@ss",
                "PGPORT=5433",
                "PGSSLMODE=verify-full",
                "PGSSLROOTCERT=/etc/ca.pem",
                "PGUSER=svc"
            ]
        );
        assert_eq!(of("postgresql://[::1]/svc"), ["PGDATABASE=svc", "PGHOST=::1"]);
        assert_eq!(of("postgres:///svc?host=/run/postgresql"), ["PGDATABASE=svc", "PGHOST=/run/postgresql"]);
        assert_eq!(of("postgres://%2Frun%2Fpostgresql/svc"), ["PGDATABASE=svc", "PGHOST=/run/postgresql"]);
    }

    #[test]
    fn a_version_is_read() {
        assert_eq!(parse_major("pg_dump (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("pg_restore (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(parse_major("something else"), None);
    }
}
