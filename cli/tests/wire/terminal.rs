//! Tests what `svc` prints and asks at a terminal, which `script` (util-linux) provides, against a stub of the API.

use std::{
    fs,
    process::{Command, Output, Stdio},
};

use axum::http::Method;
use serde_json::json;

use crate::stub::{self, World, error, json, project};

/// Runs a shell line that calls the program `svc` at a terminal of this width, and types `typed`.
fn at_terminal(world: &World, columns: u16, line: &str, typed: &str) -> Output {
    let input = world.home.path().join("typed");
    fs::write(&input, typed).unwrap();
    let svc = env!("CARGO_BIN_EXE_svc");
    let line = format!("stty cols {columns} rows 40; svc() {{ {svc} \"$@\"; }}; {line}");
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", world.home.path())
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .env("SVC_API_URL", &world.address)
        .env("SVC_TOKEN", stub::TOKEN)
        .current_dir(world.home.path())
        .stdin(Stdio::from(fs::File::open(input).unwrap()));
    command.output().unwrap()
}

/// Returns the contents of the terminal, without colors.
fn screen(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let (mut plain, mut rest) = (String::new(), text.as_str());
    while let Some((before, escape)) = rest.split_once('\x1b') {
        plain.push_str(before);
        let end = escape.find(|c: char| c.is_ascii_alphabetic()).map_or(escape.len(), |at| at + 1);
        rest = &escape[end..];
    }
    plain + rest
}

fn projects(names: &[&str]) -> axum::response::Response {
    let projects: Vec<_> = names.iter().map(|name| project(name)).collect();
    json(200, &json!({ "projects": projects, "next_cursor": null }))
}

#[test]
fn a_project_that_is_not_named_is_asked_for_and_remembered() {
    let world = World::start(|seen, _| match (&seen.method, seen.path.as_str()) {
        (&Method::GET, "/projects?all=true") => projects(&["manual", "blog"]),
        (&Method::GET, "/projects/blog/audit?limit=50") => json(200, &json!({ "entries": [], "next_cursor": null })),
        _ => error(404, "not_found"),
    });
    let output = at_terminal(&world, 80, "svc audit", "nothing\nblog\ny\n");
    let screen = screen(&output);
    assert!(output.status.success(), "{screen}");
    assert!(
        screen.contains("Your projects: manual, blog.") && screen.contains("You have no project nothing."),
        "{screen}"
    );
    assert_eq!(fs::read_to_string(world.home.path().join(".svcproject")).unwrap(), "blog\n");

    // From now on there is no question.
    let output = at_terminal(&world, 80, "svc audit", "");
    assert!(output.status.success() && !self::screen(&output).contains("Which project?"));
}

#[test]
fn the_folder_s_name_is_what_a_new_project_is_called_unless_another_is_typed() {
    let world = World::start(|seen, _| match (&seen.method, seen.path.as_str()) {
        (&Method::GET, "/projects?all=true") => projects(&[]),
        (&Method::POST, "/projects") => json(201, &project("my-site")),
        (&Method::POST, "/projects/my-site/deployments") => stub::uploaded(),
        _ => error(404, "not_found"),
    });
    let site = world.home.path().join("My Site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("index.html"), "hello").unwrap();
    let output = at_terminal(&world, 80, "cd 'My Site' && svc deploy", "\nn\n");
    let screen = screen(&output);
    assert!(output.status.success() && screen.contains("[my-site]"), "{screen}");
    assert!(!site.join(".svcproject").exists());
}

#[test]
fn tables_fit_the_terminal_and_are_whole_in_a_pipe() {
    let world = World::start(|seen, _| match seen.path.as_str() {
        "/projects" => projects(&["manual", "a-name-that-is-as-long-as-a-name-may-be"]),
        _ => error(404, "not_found"),
    });
    for columns in [40, 60, 80] {
        let screen = screen(&at_terminal(&world, columns, "svc projects", ""));
        assert!(screen.contains("manual"), "{columns}: {screen}");
        let widest = screen.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(columns), "{columns}: {screen}");
    }
    let piped = screen(&at_terminal(&world, 40, "svc projects | cat", ""));
    assert!(piped.contains("https://a-name-that-is-as-long-as-a-name-may-be.svc.localhost"), "{piped}");
}

#[test]
fn somebody_who_waits_is_told_what_for() {
    let world = World::start(|_, _| error(503, "unavailable"));
    let output = at_terminal(&world, 80, "svc whoami", "");
    let screen = screen(&output);
    assert_eq!(output.status.code(), Some(7), "{screen}");
    assert!(screen.contains("Trying again (3 of 4)"), "{screen}");
    let quiet = at_terminal(&world, 80, "svc --quiet whoami", "");
    assert!(!self::screen(&quiet).contains("Trying again"));
}

#[test]
fn what_is_dangerous_is_confirmed_by_name_or_by_yes() {
    let world = World::start(|seen, _| match seen.method {
        Method::DELETE => json(200, &json!({ "ok": true })),
        _ => json(200, &project("manual")),
    });
    let refused = at_terminal(&world, 80, "svc projects rm manual", "another\n");
    assert_eq!(refused.status.code(), Some(1), "{}", screen(&refused));
    assert!(world.seen().is_empty());
    assert!(at_terminal(&world, 80, "svc projects rm manual", "manual\n").status.success());
    // Before the command, in the middle, and at the end.
    for line in ["svc --yes projects rm manual", "svc projects rm -y manual", "svc projects rm manual --yes"] {
        assert!(at_terminal(&world, 80, line, "").status.success(), "{line}");
    }
}
