//! `svc env`.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    str::FromStr,
};

use api::{
    Done,
    env::{EnvChanged, EnvList, EnvVar, SetEnv},
};
use clap::{Subcommand, ValueEnum};
use console::Term;
use domain::{
    ProjectName,
    env::{EnvError, EnvKey, EnvScope, EnvValue},
    limits::ENV_VALUE_CHARS,
};
use serde_json::json;

use super::projects;
use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    options::ProjectOption,
    output::Output,
};

/// The maximum length of a value in bytes, plus one, so that a longer value is refused instead of cut.
const INPUT_BYTES: u64 = 4 * ENV_VALUE_CHARS as u64 + 1;

/// List and change a project's environment variables.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct EnvArgs {
    /// Also show the values in the list
    #[arg(long)]
    values: bool,
    #[command(subcommand)]
    action: Option<EnvCommand>,
    #[command(flatten)]
    project: ProjectOption,
}

#[derive(Debug, Subcommand)]
enum EnvCommand {
    /// List the variables; shows values only with --values or --json
    #[command(alias = "ls")]
    List {
        /// Also show the values
        #[arg(long)]
        values: bool,
    },
    /// Print the value of a variable
    Get {
        /// The variable's name
        key: EnvKey,
    },
    /// Set a variable
    ///
    /// Without VALUE it is read from stdin (minus one trailing line break), or asked for, so that secrets do not end up
    /// in the shell's history.
    Set {
        /// The name: letters, digits and underscores, not starting with a digit; or KEY=VALUE
        #[arg(value_name = "KEY")]
        variable: Assignment,
        /// The value, or - to read it from stdin
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
        /// Read the value from this file, unchanged
        #[arg(long, value_name = "FILE", conflicts_with = "value")]
        file: Option<PathBuf>,
        /// Where the variable is used [default: unchanged; both for a new one]
        #[arg(long, value_enum)]
        scope: Option<ScopeOption>,
    },
    /// Remove a variable
    #[command(alias = "remove", alias = "delete", alias = "unset")]
    Rm {
        /// The variable's name
        key: EnvKey,
    },
    /// Write all variables to a dotenv file, readable only by you; --yes replaces an existing one
    Pull {
        /// The file, or - for stdout
        #[arg(default_value = ".env")]
        file: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeOption {
    /// At runtime
    Runtime,
    /// In builds
    Build,
    /// In builds and at runtime
    Both,
}

impl From<ScopeOption> for EnvScope {
    fn from(scope: ScopeOption) -> Self {
        match scope {
            ScopeOption::Runtime => Self::Runtime,
            ScopeOption::Build => Self::Build,
            ScopeOption::Both => Self::Both,
        }
    }
}

/// A variable's name, with its value if given as `KEY=VALUE`.
#[derive(Debug, Clone)]
struct Assignment {
    key: EnvKey,
    value: Option<String>,
}

impl FromStr for Assignment {
    type Err = EnvError;
    fn from_str(text: &str) -> Result<Self, EnvError> {
        let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value.to_owned())));
        Ok(Self { key: key.parse()?, value })
    }
}

pub(crate) async fn run(env: EnvArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = env.project.choose(client, output).await?;
    match env.action.unwrap_or(EnvCommand::List { values: env.values }) {
        EnvCommand::List { values } => list(&name, values, client, output).await,
        EnvCommand::Get { key } => get(&name, &key, client, output).await,
        EnvCommand::Set { variable: Assignment { key, value: assigned }, value, file, scope } => {
            let value = match (assigned, value, file) {
                (None, None, Some(file)) => read_file(&file)?,
                (None, value, _) => read_value(&key, value, output)?,
                (Some(assigned), None, None) => parse(assigned)?,
                (Some(_), _, _) => {
                    return Err(Failure::usage(format!("{key} was given two values."))
                        .with_hint("Leave one out.")
                        .into());
                }
            };
            set(&name, &key, value, scope.map(Into::into), client, output).await
        }
        EnvCommand::Rm { key } => remove(&name, &key, client, output).await,
        EnvCommand::Pull { file } => pull(&name, &file, client, output).await,
    }
}

async fn variables(name: &ProjectName, client: &Client) -> Result<Vec<EnvVar>, Failure> {
    let answer = client.get::<EnvList>(&format!("/projects/{name}/env")).await;
    let mut env = answer.map_err(|failure| projects::unknown(name, failure))?.body.env;
    env.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(env)
}

async fn list(name: &ProjectName, values: bool, client: &Client, output: Output) -> anyhow::Result<()> {
    let env = variables(name, client).await?;
    output.list("env", &env, &["KEY", "SCOPE", "VALUE"], "No variables yet. Set one: svc env set KEY", |variable| {
        // Quoted, because a value with line breaks would break the table.
        let value = if values { quoted(variable.value.expose()) } else { "•••".to_owned() };
        vec![variable.key.to_string(), variable.scope.as_str().to_owned(), value]
    })
}

async fn get(name: &ProjectName, key: &EnvKey, client: &Client, output: Output) -> anyhow::Result<()> {
    let found = variables(name, client).await?.into_iter().find(|variable| variable.key == *key);
    let variable = found.ok_or_else(|| no_variable(name, key))?;
    output.exact(&variable, || variable.value.expose().to_owned())
}

async fn set(
    name: &ProjectName,
    key: &EnvKey,
    value: EnvValue,
    scope: Option<EnvScope>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let scope = if scope.is_some() {
        scope
    } else {
        // The service keeps the scope of an existing variable. A new one applies everywhere unless a scope is given.
        let exists = variables(name, client).await?.iter().any(|variable| variable.key == *key);
        (!exists).then_some(EnvScope::Both)
    };
    let body = SetEnv { value, scope };
    let answer = client.put::<EnvChanged>(&format!("/projects/{name}/env/{key}"), &body).await;
    let changed = answer.map_err(|failure| projects::unknown(name, failure))?.body;
    let readers = match changed.scope {
        EnvScope::Runtime => "what runs",
        EnvScope::Build => "builds",
        EnvScope::Both => "builds and what runs",
    };
    output.success(&format!("Set {key} of {name}, for {readers}."));
    output.note(&format!(
        "Published files never see it. A build of yours reads it from `svc env pull --project {name}`."
    ));
    output.result(&changed, String::new)
}

async fn remove(name: &ProjectName, key: &EnvKey, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&format!("/projects/{name}/env/{key}")).await;
    let answer = answer.map_err(|failure| match failure.kind {
        FailureClass::NotFound if failure.message.contains("variable") => no_variable(name, key),
        _ => projects::unknown(name, failure),
    })?;
    output.success(&format!("Removed {key} from {name}."));
    output.result(&answer.body, String::new)
}

async fn pull(name: &ProjectName, file: &Path, client: &Client, output: Output) -> anyhow::Result<()> {
    let env = variables(name, client).await?;
    let lines = env.iter().map(|variable| format!("{}={}", variable.key, quoted(variable.value.expose())));
    // Each line ends with a line break.
    let text = lines.chain([String::new()]).collect::<Vec<_>>().join("\n");
    if file == Path::new("-") {
        return output.exact(&json!({"env": env}), || text);
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    let is_replaced =
        output.is_agreed() || (file.exists() && output.confirm(&format!("{} exists. Replace it?", file.display()))?);
    if is_replaced {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let shown = file.display();
    let written = options.open(file).and_then(|mut file| {
        // Also if the file existed before.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{shown} exists.")).with_hint("Add --yes to replace it.")
        }
        _ => Failure::usage(format!("Cannot write {shown}: {error}.")),
    })?;
    output.success(&format!("Wrote {} to {shown}.", crate::output::count(env.len() as u64, "variable")));
    output.result(&json!({"ok": true, "file": file, "variables": env.len()}), String::new)
}

fn no_variable(name: &ProjectName, key: &EnvKey) -> Failure {
    Failure::new(FailureClass::NotFound, "not_found", format!("{name} has no variable {key}."))
        .with_hint(format!("`svc env --project {name}` lists what there is."))
}

fn read_value(key: &EnvKey, value: Option<String>, output: Output) -> anyhow::Result<EnvValue> {
    let text = match value {
        Some(text) if text != "-" => text,
        _ if output.can_ask() => {
            let terminal = Term::stderr();
            terminal.write_str(&format!("Value of {key} (not shown): "))?;
            terminal.read_secure_line()?
        }
        _ => {
            let text = read(io::stdin().lock(), "stdin")?;
            // The line break that `echo` adds is not part of the value.
            let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
            line.map_or(text.clone(), ToOwned::to_owned)
        }
    };
    parse(text)
}

fn read_file(file: &Path) -> anyhow::Result<EnvValue> {
    let shown = file.display().to_string();
    let opened = fs::File::open(file).map_err(|error| Failure::usage(format!("Cannot read {shown}: {error}.")))?;
    parse(read(opened, &shown)?)
}

fn read(from: impl io::Read, what: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    from.take(INPUT_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes);
    text.map_err(|_| Failure::usage(format!("{what} is not text (UTF-8); encode it first, as base64 say.")).into())
}

fn parse(text: String) -> anyhow::Result<EnvValue> {
    EnvValue::try_from(text).map_err(|why| Failure::usage(format!("This cannot be a variable: {why}.")).into())
}

/// Quotes a value for a dotenv file; a value without special characters stays bare.
fn quoted(value: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    if !value.is_empty() && value.chars().all(bare) {
        return value.to_owned();
    }
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' | '$' | '`' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            c => text.push(c),
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_written_as_in_a_shell_too() {
        for (written, key, value) in
            [("KEY", "KEY", None), ("KEY=", "KEY", Some("")), ("KEY=a=b c", "KEY", Some("a=b c"))]
        {
            let read: Assignment = written.parse().unwrap();
            assert_eq!((read.key.as_str(), read.value.as_deref()), (key, value));
        }
        assert!("=x".parse::<Assignment>().is_err());
        assert!("A-B=x".parse::<Assignment>().is_err());
    }

    #[test]
    fn values_are_quoted_where_they_must_be() {
        for (value, written) in [
            ("plain-1.2_3", "plain-1.2_3"),
            ("postgres://u:p@h/db", "postgres://u:p@h/db"),
            ("", "\"\""),
            ("two words", "\"two words\""),
            ("a\"b\\c$d`e", "\"a\\\"b\\\\c\\$d\\`e\""),
            ("line\nline", "\"line\\nline\""),
            ("#no comment", "\"#no comment\""),
        ] {
            assert_eq!(quoted(value), written);
        }
    }
}
