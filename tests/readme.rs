//! The commands that README.md shows, typed as they stand there.

use std::{collections::HashMap, fs, path::Path, process::Command};

use crate::{cli::Shell, world::World};

/// Commands that need more than a stack on this machine, with the tests that run them. They are parsed here all the same.
const ELSEWHERE: &[(&str, &str)] = &[
    ("login", "a person confirms it: sign_in, device"),
    ("sessions end ID", "a browser that is signed in: sessions"),
    ("repo link", "a code host: codehost::cli"),
    ("vcs", "a code host: codehost::cli"),
    ("logout", "a saved login: cli_people"),
    ("ai keys revoke ID", "it ends the key of other commands: cli_people"),
    ("ai chat", "a provider of models: gateway"),
    ("domains add www.example.com --wait", "DNS that leads here: domains::cli"),
    ("domains doctor", "DNS that leads here: domains::cli, certificates::issuance"),
    ("billing checkout", "a payment provider: billing::walk"),
    ("billing change", "a payment provider: billing::walk"),
    ("billing cancel", "a payment provider: billing::cli"),
    ("billing resume", "a payment provider: billing::cli"),
    ("billing details", "a VAT registry: billing::cli"),
    ("billing invoice 2026-000001", "an invoice: billing::cli"),
];

/// The commands of README.md in their order, each once: what stands after `svc`.
fn commands() -> Vec<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let mut commands = Vec::new();
    let mut add = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = text.strip_prefix(".svc/bin/").unwrap_or(&text).split(" | ").next().unwrap_or_default();
        let command = line.strip_prefix("svc ").map(str::to_owned);
        commands.extend(command.filter(|command| !command.is_empty()));
    };
    for (at, part) in readme.split("```").enumerate() {
        if at % 2 == 1 {
            part.lines().skip(1).for_each(&mut add);
        } else {
            part.split('`').skip(1).step_by(2).for_each(&mut add);
        }
    }
    let mut seen = std::collections::HashSet::new();
    commands.retain(|command| seen.insert(command.clone()));
    commands
}

/// The words of a command, as a shell reads them.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in command.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn words_are_read_as_a_shell_reads_them() {
    assert_eq!(words("details --name \"Acme B.V.\" x"), ["details", "--name", "Acme B.V.", "x"]);
    let commands = commands();
    assert!(commands.len() > 50, "{commands:?}");
    assert!(commands.contains(&"deploy ./public --project hello".to_owned()), "{commands:?}");
    for (command, why) in ELSEWHERE {
        assert!(
            commands.iter().any(|shown| shown.starts_with(command)),
            "README.md has no `svc {command}` any more ({why})"
        );
    }
}

#[tokio::test]
async fn every_command_of_the_readme_does_what_it_is_shown_for() {
    let world = World::start().await;
    let shell = Shell::new(&world, world.user("ada").await.token);
    shell.write("public/index.html", "<h1>hello</h1>");
    shell.write("report.html", "<h1>report</h1>");
    shell.write("report.pdf", "%PDF-1.4");
    shell.write(".svcproject", "hello\n");
    let mut zip = Command::new("python3");
    zip.args(["-m", "zipfile", "-c", "site.zip", "public/"]).current_dir(shell.folder());
    assert!(zip.status().unwrap().success());
    // What the reader has besides: an organization, an AI key, a deleted project, and a deployment to go back to.
    for made in [&["orgs", "create", "team"][..], &["projects", "create", "gone"], &["projects", "rm", "gone", "--yes"]]
    {
        shell.text(made).await;
    }
    let first = shell.json(&["deploy", "public"]).await["deployment_id"].clone();
    shell.write("public/index.html", "<h1>hello again</h1>");
    let second = shell.json(&["deploy", "public"]).await["deployment_id"].clone();
    let key = shell.json(&["ai", "key", "create"]).await["id"].clone();
    let share = shell.json(&["share", "report.html"]).await["url"].clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();

    for command in commands() {
        // Each placeholder by what the command takes there.
        let id = if command.starts_with("tokens") { text(&key) } else { text(&second) };
        let placeholders = HashMap::from([
            ("ID", id),
            ("[OTHER]", text(&first)),
            ("<password>", "hunter22".to_owned()),
            ("<org>", "team".to_owned()),
            ("TEAM", "team".to_owned()),
            ("<name-or-url>", text(&share)),
            ("<command>", "deploy".to_owned()),
            ("NAME", if command.contains("restore") { "gone".to_owned() } else { "acme".to_owned() }),
        ]);
        let fill = |word: String| placeholders.get(word.as_str()).cloned().unwrap_or(word);
        let words: Vec<String> = words(&command).into_iter().map(fill).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        if ELSEWHERE.iter().any(|(elsewhere, _)| command.starts_with(elsewhere)) {
            let id = match command.split(' ').next() {
                Some("vcs") => "1",
                Some("sessions") => "ses_0123456789abcdefghij",
                _ => "tok_0123456789abcdefghij",
            };
            words.iter_mut().filter(|word| **word == text(&second)).for_each(|word| *word = id);
            words.push("--help");
        } else if command == "domains add" || command == "deploy" {
            // Named without what it takes.
            words.push("--help");
        }
        let ran = shell.run_with(&words, "a value").await;
        assert_eq!(ran.code, 0, "README.md shows `svc {command}`: {}{}", ran.out, ran.err);
        assert!(!ran.out.contains('\x1b'), "`svc {command}`: {}", ran.out);
    }
    world.edge().get(&world.site_url("hello")).await.assert_status(401);
    assert!(shell.folder().join("ledger.csv").exists());
    let restored = shell.json(&["projects"]).await["projects"].to_string();
    assert!(restored.contains("\"gone\""), "{restored}");
}
