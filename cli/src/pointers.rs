//! Hints for command names of other programs that this one does not have.

use clap::{
    CommandFactory as _, Parser as _,
    error::{ContextKind, ContextValue, ErrorKind},
};

use domain::BRAND;

use crate::args::Args;

/// Words that people try, and the equivalent here.
const POINTERS: &[(&[&str], &str)] = &[
    (
        &["ls", "list", "ps", "sites", "apps"],
        "`svc projects` lists your projects, `svc deployments` a project's deployments.",
    ),
    (
        &["publish", "push", "up", "upload", "release"],
        "`svc deploy DIR` publishes a folder, `svc share FILE` a page for some days.",
    ),
    (
        &["pull", "get", "fetch", "clone", "export"],
        "`svc download` gets all files of a deployment, `svc stats export` what was counted.",
    ),
    (&["logs", "log", "tail"], "`svc stats --watch` shows requests as they are counted, `svc audit` who changed what."),
    (
        &["config", "settings", "set"],
        "`svc env` has a site's variables; this program's own settings are options and variables: `svc --help`.",
    ),
    (
        &["link", "init", "use"],
        "`svc deploy --project NAME --save` keeps the project's name in this folder; `svc repo link` deploys pushes.",
    ),
    (&["rm", "remove", "delete", "destroy"], "`svc projects rm NAME` removes a project, `svc shares rm NAME` a share."),
    (&["auth", "signin", "sign-in"], "`svc login` signs you in, `svc whoami` says as whom."),
    (&["secrets", "secret", "vars", "variables"], "`svc env` lists a site's variables, `svc env set KEY` sets one."),
    (
        &["undo", "revert", "restore"],
        "`svc rollback` serves the deployment before; `svc projects restore NAME` brings a deleted project back.",
    ),
    (&["teams", "team", "org"], "`svc orgs` lists your organizations, `svc members --org NAME` who belongs to one."),
    (&["keys", "key"], "`svc ai keys` lists the keys of the AI gateway, `svc tokens` all tokens."),
    (&["usage", "plan", "plans"], "`svc billing` shows your plan and its use, `svc ai usage` the AI gateway's."),
];

/// A usage error, with a hint.
#[derive(Debug)]
pub(crate) struct UsageMistake {
    pub(crate) error: clap::Error,
    /// A hint at what was probably meant.
    pub(crate) pointer: Option<&'static str>,
}

/// Finds what was probably meant by `words`, the command line without the program's name, that failed with `error`.
pub(crate) fn explain(error: clap::Error, words: &[String]) -> UsageMistake {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return UsageMistake { error, pointer: None };
    }
    // `svc help WORD` suggests nothing where `svc WORD` does.
    let (error, words) = match words.split_first() {
        Some((first, rest)) if first == "help" => {
            let again = std::iter::once(BRAND).chain(rest.iter().map(String::as_str));
            match Args::try_parse_from(again) {
                Err(other) if other.kind() == ErrorKind::InvalidSubcommand => (other, rest),
                _ => (error, rest),
            }
        }
        _ => (error, words),
    };
    let unknown = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.to_ascii_lowercase(),
        _ => return UsageMistake { error, pointer: None },
    };
    // After a command, a word means something else.
    let is_first = Args::command().get_subcommands().all(|known| !words.iter().any(|word| word == known.get_name()));
    let pointer = POINTERS.iter().find(|(others, _)| is_first && others.contains(&unknown.as_str()));
    UsageMistake { error, pointer: pointer.map(|(_, pointer)| *pointer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(line: &str) -> UsageMistake {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = Args::try_parse_from(std::iter::once("svc".to_owned()).chain(words.clone())).unwrap_err();
        explain(error, &words)
    }

    #[test]
    fn words_of_other_programs_are_pointed_to_what_does_it_here() {
        for (word, command) in [
            ("ls", "svc projects"),
            ("publish", "svc deploy"),
            ("logs", "svc stats"),
            ("config", "svc env"),
            ("link", "--save"),
        ] {
            let pointer = mistake(word).pointer.unwrap_or_else(|| panic!("{word} points nowhere"));
            assert!(pointer.contains(command), "{word}: {pointer}");
        }
        assert!(mistake("help logs").pointer.is_some());
        assert!(mistake("--json logs").pointer.is_some());
        assert!(mistake("projects publish").pointer.is_none());
        assert!(mistake("deploy --nonsense").pointer.is_none());
    }

    #[test]
    fn help_suggests_what_the_command_itself_would() {
        for line in ["deply", "help deply"] {
            assert!(mistake(line).error.render().to_string().contains("deploy"), "{line}");
        }
    }

    #[test]
    fn no_pointer_stands_for_a_command_there_is() {
        for word in POINTERS.iter().flat_map(|(words, _)| *words) {
            assert!(Args::command().find_subcommand(word).is_none(), "{word}");
        }
    }
}
