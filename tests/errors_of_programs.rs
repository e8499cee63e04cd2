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

/// A program that is to fail, with the settings that differ from the world's, and parts of what it says.
struct Case<'c> {
    program: &'c str,
    arguments: &'c [&'c str],
    settings: Vec<(&'c str, String)>,
    said: &'c [&'c str],
}

/// The last line that the program says, and whether it has failed.
async fn failure(world: &World, case: &Case<'_>) -> String {
    let mut command = tokio::process::Command::new(program(case.program));
    command.args(case.arguments).envs(world.settings()).envs([("SVC_LOG_FORMAT", "text"), ("NO_COLOR", "1")]);
    command.envs(case.settings.iter().map(|(key, value)| (format!("SVC__{key}"), value)));
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{} {:?}: {said}", case.program, case.arguments);
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
    let cases = [
        Case {
            program: "admin",
            arguments: &["migrate"],
            settings: vec![("POSTGRES__URL", away.clone())],
            said: &["PostgreSQL at postgres://", "(postgres.url)", "nothing listens there"],
        },
        Case {
            program: "certs",
            arguments: &["list"],
            settings: vec![("POSTGRES__URL", away)],
            said: &["PostgreSQL at postgres://", "nothing listens there"],
        },
        Case {
            program: "admin",
            arguments: &["migrate"],
            settings: vec![("POSTGRES__URL", password)],
            said: &["password authentication failed", "set the right password in the URL"],
        },
        Case {
            program: "admin",
            arguments: &["migrate"],
            settings: vec![("POSTGRES__URL", other)],
            said: &["no_such_database", "CREATE DATABASE"],
        },
        Case {
            program: "admin",
            arguments: issue,
            settings: vec![("POSTGRES__URL", reads)],
            said: &["read-only", "let the URL lead to the primary"],
        },
        Case {
            program: "admin",
            arguments: &["edges"],
            settings: vec![("REDIS__URL", redis("", nobody))],
            said: &["(redis.url)", "nothing listens there; is it running"],
        },
        Case {
            program: "admin",
            arguments: &["edges"],
            settings: vec![("REDIS__URL", redis("svc-edge:hidden-password@", world.redis_port))],
            said: &["(redis.url)", "does not take the user or the password"],
        },
        Case {
            program: "admin",
            arguments: &["admins"],
            settings: vec![("REDIS__URL", of_edge)],
            said: &["(redis.url)", "its user may not do that"],
        },
        Case {
            program: "admin",
            arguments: &["serve"],
            settings: vec![("STORE__URL", in_a_file)],
            said: &["store.url", "is a file and no folder"],
        },
        Case {
            program: "admin",
            arguments: &["--config", "/nonexistent/svc.toml"],
            settings: vec![],
            said: &["there is no configuration file /nonexistent/svc.toml", "defaults"],
        },
        Case {
            program: "edge",
            arguments: &["--config", &unknown],
            settings: vec![],
            said: &["postgres.ulr", "did you mean postgres.url?"],
        },
        Case {
            program: "edge",
            arguments: &["--config", &wrong_type],
            settings: vec![],
            said: &["edge.connections", "must be a whole number"],
        },
        Case {
            program: "certs",
            arguments: &["--config", &no_toml, "list"],
            settings: vec![],
            said: &["no.toml", "line 2, column 15"],
        },
        Case {
            program: "admin",
            arguments: &["serve"],
            settings: vec![("SECRETS__MASTER_KEY_FILE", "/nonexistent/master.key".into())],
            said: &["/nonexistent/master.key", "`certs master-key /nonexistent/master.key`"],
        },
        Case {
            program: "admin",
            arguments: &["serve"],
            settings: vec![("ADMIN__LISTEN", in_use.clone())],
            said: &["admin.listen", &in_use, "another program listens there"],
        },
        Case {
            program: "edge",
            arguments: &[],
            settings: vec![("EDGE__LISTEN_HTTPS", in_use.clone())],
            said: &["edge.listen_https", &in_use, "another program listens there"],
        },
        Case {
            program: "certs",
            arguments: &["import", "--chain", absent, "--key", absent],
            settings: vec![],
            said: &[absent, "there is no such file"],
        },
    ];
    let mut wrong = Vec::new();
    for case in &cases {
        let said = failure(&world, case).await;
        let lacking: Vec<_> = case.said.iter().filter(|part| !said.contains(**part)).collect();
        let raw: Vec<_> = RAW.iter().filter(|raw| said.contains(**raw)).collect();
        if !lacking.is_empty() || !raw.is_empty() {
            wrong.push(format!("{} {:?}: {said}\n   lacks {lacking:?}, has {raw:?}", case.program, case.arguments));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
