//! Checks `docs/reference/commands.md` against the commands: the usage, arguments and options of each.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::{Args, EVERYWHERE};

const HEAD: &str = "# svc commands

Every command of the client. `svc help COMMAND` says the same. This page is written by `SVC_WRITE_DOCS=1 cargo test -p cli`, which fails when it is
not current.
";

/// Formats a help text for a table cell.
fn cell(words: &impl ToString) -> String {
    words.to_string().split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "\\<")
}

/// Formats an option or argument as it is typed.
fn typed(arg: &Arg) -> String {
    let values: Vec<String> =
        arg.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>")).collect();
    let value = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let names = [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))];
    let names: Vec<String> = names.into_iter().flatten().collect();
    if names.is_empty() {
        return value;
    }
    format!("{} {value}", names.join(", ")).trim_end().to_owned()
}

/// Describes an argument, with its choices, its default and the variable that sets it.
fn described(arg: &Arg) -> String {
    let mut words = arg.get_help().map(cell).unwrap_or_default();
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && arg.get_action().takes_values())
        .map(|value| {
            let help = value.get_help().map(|help| format!(" ({})", cell(help))).unwrap_or_default();
            format!("`{}`{help}", value.get_name())
        })
        .collect();
    if !choices.is_empty() {
        write!(words, ". One of {}", choices.join(", ")).unwrap();
    }
    let defaults: Vec<String> = arg.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        write!(words, ". Default: {}", defaults.join(", ")).unwrap();
    }
    if let Some(variable) = arg.get_env() {
        write!(words, ". Environment: `{}`", variable.display()).unwrap();
    }
    words
}

fn table(page: &mut String, args: &[&Arg]) {
    if !args.is_empty() {
        page.push_str("\n| argument | what it is |\n|---|---|\n");
    }
    for arg in args {
        writeln!(page, "| `{}` | {} |", typed(arg).replace('|', "\\|"), described(arg)).unwrap();
    }
}

fn write(page: &mut String, command: &Command, path: &str, depth: usize) {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    write!(page, "\n{} `{path}`\n\n{}\n", "#".repeat(depth), cell(&about)).unwrap();
    let own = |arg: &&Arg| {
        !arg.is_hide_set()
            && arg.get_help_heading() != Some(EVERYWHERE)
            && !["help", "version"].contains(&arg.get_id().as_str())
    };
    let args: Vec<&Arg> = command.get_arguments().filter(own).collect();
    table(page, &args);
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set()) {
        write(page, inner, &format!("{path} {}", inner.get_name()), (depth + 1).min(4));
    }
}

#[test]
fn the_page_of_commands_is_current() {
    let svc = Args::command();
    let mut page = HEAD.to_owned();
    page.push_str("\n## Options of every command\n");
    let everywhere: Vec<&Arg> = svc.get_arguments().filter(|arg| arg.get_help_heading() == Some(EVERYWHERE)).collect();
    table(&mut page, &everywhere);
    for command in svc.get_subcommands().filter(|command| !command.is_hide_set()) {
        write(&mut page, command, &format!("svc {}", command.get_name()), 2);
    }
    let after = svc.get_after_help().map(ToString::to_string).unwrap();
    write!(page, "\n## Examples, files, exit codes\n\n```text\n{after}\n```\n").unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/commands.md");
    if std::env::var_os("SVC_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let is_current = std::fs::read_to_string(path).unwrap_or_default() == page;
    assert!(is_current, "docs/reference/commands.md is not current; write it by SVC_WRITE_DOCS=1 cargo test -p cli");
}
