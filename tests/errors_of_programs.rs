//! What programs say that cannot do what they are asked for: what was tried, what went wrong in plain words, and the next step; never
//! a password, and nothing in the words of a library.

use std::{net::TcpListener, path::Path};

use crate::world::{
    World,
    edge_rights::{EDGE_PASSWORD, EDGE_USER},
    ports,
    process::program,
};

/// The words of libraries, and what nobody may read.
const RAW: [&str; 8] = [
    "pool timed out",
    "error communicating",
    "error returned",
    "at line ",
    "os error",
    "invalid type",
    "TOML parse error",
    "hidden-password",
];

/// A program that is to fail, its arguments, the settings that differ from the world's, and parts of what it says.
type Case<'c> = (&'c str, &'c [&'c str], &'c [(&'c str, &'c str)], &'c [&'c str]);

/// The last line that the program says, and whether it has failed.
async fn failure(world: &World, &(name, arguments, settings, _): &Case<'_>) -> String {
    let mut command = tokio::process::Command::new(program(name));
    command.args(arguments).envs(world.settings()).envs([("SVC_LOG_FORMAT", "text"), ("NO_COLOR", "1")]);
    command.envs(settings.iter().map(|(key, value)| (format!("SVC__{key}"), value)));
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{name} {arguments:?}: {said}");
    said.lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn what_went_wrong_is_said_with_its_place_and_the_next_step() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (unknown, wrong_type, no_toml) = (
        file("unknown.toml", "[postgres]\nulr = \"x\"\n"),
        file("type.toml", "[edge]\nconnections = \"many\"\n"),
        file("no.toml", "[edge]\nconnections = many\n"),
    );
    let nobody = ports::free();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = taken.local_addr().unwrap().to_string();
    let with = |change: &dyn Fn(&mut url::Url)| {
        let mut url = world.database.clone();
        change(&mut url);
        url.to_string()
    };
    let away = with(&|url| url.set_port(Some(nobody)).unwrap());
    let password = with(&|url| url.set_password(Some("hidden-password")).unwrap());
    let other = with(&|url| url.set_path("/no_such_database"));
    let reads = with(&|url| url.set_query(Some("options=-c%20default_transaction_read_only%3Don")));
    let redis = |user: &str, port: u16| format!("redis://{user}127.0.0.1:{port}");
    let of_edge = redis(&format!("{EDGE_USER}:{EDGE_PASSWORD}@"), world.redis_port);
    let in_a_file = format!("file://{unknown}/store");
    let issue: &[&str] = &["issue-token", "--login", "eve"];
    let absent = Path::new("/nonexistent/fullchain.pem").to_str().unwrap();
    let cases: [Case<'_>; 17] = [
        (
            "admin",
            &["migrate"],
            &[("POSTGRES__URL", &away)],
            &["PostgreSQL at postgres://", "(postgres.url)", "nothing listens there"],
        ),
        ("certs", &["list"], &[("POSTGRES__URL", &away)], &["PostgreSQL at postgres://", "nothing listens there"]),
        (
            "admin",
            &["migrate"],
            &[("POSTGRES__URL", &password)],
            &["password authentication failed", "set the right password in the URL"],
        ),
        ("admin", &["migrate"], &[("POSTGRES__URL", &other)], &["no_such_database", "CREATE DATABASE"]),
        ("admin", issue, &[("POSTGRES__URL", &reads)], &["read-only", "let the URL lead to the primary"]),
        (
            "admin",
            &["edges"],
            &[("REDIS__URL", &redis("", nobody))],
            &["(redis.url)", "nothing listens there; is it running"],
        ),
        (
            "admin",
            &["edges"],
            &[("REDIS__URL", &redis("svc-edge:hidden-password@", world.redis_port))],
            &["(redis.url)", "does not take the user or the password"],
        ),
        ("admin", &["admins"], &[("REDIS__URL", &of_edge)], &["(redis.url)", "its user may not do that"]),
        ("admin", &["serve"], &[("STORE__URL", &in_a_file)], &["store.url", "is a file and no folder"]),
        (
            "admin",
            &["--config", "/nonexistent/svc.toml"],
            &[],
            &["there is no configuration file /nonexistent/svc.toml", "defaults"],
        ),
        ("edge", &["--config", &unknown], &[], &["postgres.ulr", "did you mean postgres.url?"]),
        ("edge", &["--config", &wrong_type], &[], &["edge.connections", "must be a whole number"]),
        ("certs", &["--config", &no_toml, "list"], &[], &["no.toml", "line 2, column 15"]),
        (
            "admin",
            &["serve"],
            &[("SECRETS__MASTER_KEY_FILE", "/nonexistent/master.key")],
            &["/nonexistent/master.key", "`certs master-key /nonexistent/master.key`"],
        ),
        (
            "admin",
            &["serve"],
            &[("ADMIN__LISTEN", &in_use)],
            &["admin.listen", &in_use, "another program listens there"],
        ),
        (
            "edge",
            &[],
            &[("EDGE__LISTEN_HTTPS", &in_use)],
            &["edge.listen_https", &in_use, "another program listens there"],
        ),
        ("certs", &["import", "--chain", absent, "--key", absent], &[], &[absent, "there is no such file"]),
    ];
    let mut wrong = Vec::new();
    for case in &cases {
        let (name, arguments, _, parts) = case;
        let said = failure(&world, case).await;
        let lacking: Vec<_> = parts.iter().filter(|part| !said.contains(**part)).collect();
        let raw: Vec<_> = RAW.iter().filter(|raw| said.contains(**raw)).collect();
        if !lacking.is_empty() || !raw.is_empty() {
            wrong.push(format!("{name} {arguments:?}: {said}\n   lacks {lacking:?}, has {raw:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
