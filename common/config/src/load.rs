//! Reads the file and the environment, and validates the keys.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Config;

const ENV_PREFIX: &str = "SVC__";
const FILE_ENV: &str = "SVC_CONFIG";
const DEFAULT_FILE: &str = "svc.toml";

/// Errors of loading the configuration. Every message names the key and where it was set.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file named by `--config` or `SVC_CONFIG` cannot be read.
    #[error("{}", unreadable(path, cause))]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// The file is not valid TOML.
    #[error("the configuration file {path} is not valid TOML: {reason}")]
    Syntax {
        /// The path of the file.
        path: PathBuf,
        /// The parser's message, with the position.
        reason: String,
    },
    /// The file or the environment sets a key that no section has.
    #[error("unknown configuration key {key} (in {origin}); did you mean {nearest}?")]
    UnknownKey {
        /// The unknown key, as it was written.
        key: String,
        /// The file or the environment variable that sets the key.
        origin: String,
        /// The known key that is spelled most like the unknown one.
        nearest: String,
    },
    /// A value has the wrong type or form.
    #[error("configuration: {0}")]
    Value(String),
}

impl Config {
    /// Loads `file`, or the file that `SVC_CONFIG` names, or `./svc.toml` if it exists, and then applies the
    /// environment.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let named = file.map(Path::to_path_buf).or_else(|| std::env::var_os(FILE_ENV).map(PathBuf::from));
        let path = named.clone().unwrap_or_else(|| DEFAULT_FILE.into());
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && named.is_none() => String::new(),
            Err(cause) => return Err(ConfigError::Read { path, cause }),
        };
        Self::from_parts(&path, &text, std::env::vars())
    }

    /// Loads the configuration from a file's text and from environment variables. Errors refer to the file as `path`.
    pub fn from_parts(
        path: &Path,
        text: &str,
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let known = known_keys();
        let mut given: Value = toml::from_str(text).map_err(|e: toml::de::Error| ConfigError::Syntax {
            path: path.into(),
            reason: format_syntax_error(text, &e),
        })?;
        check_keys(&given, &known, &path.display().to_string())?;
        for (variable, value) in env {
            if let Some(rest) = variable.strip_prefix(ENV_PREFIX) {
                apply_variable(&mut given, &known, &variable, rest, &value)?;
            }
        }
        serde_path_to_error(given)
    }
}

/// Returns the path of the missing configuration file if the defaults apply. `named` is the argument of `--config`.
pub fn missing_file(named: Option<&Path>) -> Option<PathBuf> {
    if named.is_some() || std::env::var_os(FILE_ENV).is_some() || Path::new(DEFAULT_FILE).exists() {
        return None;
    }
    Some(std::env::current_dir().unwrap_or_default().join(DEFAULT_FILE))
}

fn unreadable(path: &Path, source: &std::io::Error) -> String {
    let path = path.display();
    match source.kind() {
        std::io::ErrorKind::NotFound => format!(
            "there is no configuration file {path}, which --config or {FILE_ENV} names; without a name, {DEFAULT_FILE} in the working \
             directory is read, and defaults are used where there is none"
        ),
        std::io::ErrorKind::PermissionDenied => {
            format!("this user may not read the configuration file {path}: give it the right (`ls -l {path}`, `id`)")
        }
        _ => format!("cannot read the configuration file {path}: {source}"),
    }
}

/// Formats a parser's error on one line.
fn format_syntax_error(text: &str, error: &toml::de::Error) -> String {
    let Some(span) = error.span() else { return error.message().to_owned() };
    let before = text.get(..span.start).unwrap_or(text);
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {}, column {column}: {}", before.matches('\n').count() + 1, error.message())
}

/// Finds the key of a section whose value is invalid by itself, and formats why.
fn wrong_key(section: &str, keys: &Map<String, Value>) -> Option<String> {
    keys.iter().find_map(|(key, value)| {
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        let alone = Value::Object(Map::from_iter([(section.to_owned(), Value::Object(alone))]));
        let error = serde_json::from_value::<Config>(alone).err()?.to_string();
        Some(format!("{section}.{key}: {}", plain_types(&error)))
    })
}

/// Names types as they are written in the file.
fn plain_types(error: &str) -> String {
    let mut said = error.replace("invalid type: ", "it is ").replace("invalid value: ", "it is ");
    for number in ["u8", "u16", "u32", "u64", "usize", "i32", "i64"] {
        if let Some(before) = said.strip_suffix(&format!("expected {number}")) {
            said = format!("{before}and must be a whole number, without quotes");
        }
    }
    if let Some(before) = said.strip_suffix("expected a boolean") {
        said = format!("{before}and must be true or false, without quotes");
    }
    if let Some(before) = said.strip_suffix("expected a string") {
        said = format!("{before}and must be a text in quotes");
    }
    said
}

fn serde_path_to_error(given: Value) -> Result<Config, ConfigError> {
    // Section by section, so that the message can name the section.
    if let Value::Object(sections) = &given {
        for (name, section) in sections {
            let alone = Value::Object(Map::from_iter([(name.clone(), section.clone())]));
            serde_json::from_value::<Config>(alone).map_err(|e| {
                let wrong = section.as_object().and_then(|keys| wrong_key(name, keys));
                ConfigError::Value(wrong.unwrap_or_else(|| format!("section [{name}]: {e}")))
            })?;
        }
    }
    serde_json::from_value(given).map_err(|e| ConfigError::Value(e.to_string()))
}

/// Returns the default configuration as a tree, which has every section and every key.
fn known_keys() -> Map<String, Value> {
    match serde_json::to_value(Config::default()) {
        Ok(Value::Object(sections)) => sections,
        _ => Map::new(),
    }
}

fn check_keys(given: &Value, known: &Map<String, Value>, origin: &str) -> Result<(), ConfigError> {
    let Value::Object(sections) = given else { return Ok(()) };
    for (section, keys) in sections {
        known_section(known, section, origin)?;
        let Value::Object(keys) = keys else {
            return Err(ConfigError::Value(format!("{section} must be a section: write [{section}]")));
        };
        for key in keys.keys() {
            known_key(known, section, key, origin)?;
        }
    }
    Ok(())
}

fn known_section<'k>(
    known: &'k Map<String, Value>,
    section: &str,
    origin: &str,
) -> Result<&'k Map<String, Value>, ConfigError> {
    known.get(section).and_then(Value::as_object).ok_or_else(|| ConfigError::UnknownKey {
        key: format!("[{section}]"),
        origin: origin.to_owned(),
        nearest: format!("[{}]", nearest(section, known.keys())),
    })
}

fn known_key<'k>(
    known: &'k Map<String, Value>,
    section: &str,
    key: &str,
    origin: &str,
) -> Result<&'k Value, ConfigError> {
    let keys = known_section(known, section, origin)?;
    keys.get(key).ok_or_else(|| ConfigError::UnknownKey {
        key: format!("{section}.{key}"),
        origin: origin.to_owned(),
        nearest: format!("{section}.{}", nearest(key, keys.keys())),
    })
}

fn nearest<'k>(wanted: &str, candidates: impl Iterator<Item = &'k String>) -> String {
    let likeness = |candidate: &String| strsim::jaro_winkler(wanted, candidate);
    candidates.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).cloned().unwrap_or_default()
}

fn apply_variable(
    given: &mut Value,
    known: &Map<String, Value>,
    variable: &str,
    rest: &str,
    text: &str,
) -> Result<(), ConfigError> {
    let lower = rest.to_ascii_lowercase();
    let (section, key) = lower
        .split_once("__")
        .ok_or_else(|| ConfigError::Value(format!("{variable}: write {ENV_PREFIX}SECTION__KEY")))?;
    let value = match known_key(known, section, key, variable)? {
        Value::Number(_) | Value::Bool(_) => serde_json::from_str(text)
            .map_err(|_| ConfigError::Value(format!("{variable}: `{text}` is not of the right type")))?,
        Value::Array(_) if text.starts_with("[{") => serde_json::from_str(text)
            .map_err(|_| ConfigError::Value(format!("{variable}: a list of tables is given as JSON")))?,
        Value::Array(_) => text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(Value::from).collect(),
        Value::Object(_) => serde_json::from_str(text)
            .map_err(|_| ConfigError::Value(format!("{variable}: a table is given as JSON")))?,
        // The type of a key without a default is unknown: it may be a text or a table.
        Value::Null if text.starts_with('{') => serde_json::from_str(text)
            .map_err(|_| ConfigError::Value(format!("{variable}: a table is given as JSON")))?,
        Value::String(_) | Value::Null => Value::from(text),
    };
    if let Value::Object(sections) = given {
        let slot = sections.entry(section).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(keys) = slot {
            keys.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Config::from_parts(Path::new("svc.toml"), text, env)
    }

    #[test]
    fn environment_overrides_the_file() {
        let text = "[postgres]\nurl = \"postgres://file\"\nmax_connections = 3\n";
        let config =
            load(text, &[("SVC__POSTGRES__URL", "postgres://env"), ("SVC__EDGE__TRUSTED_PROXIES", "10.0.0.0/8, ::1")])
                .unwrap();
        assert_eq!(config.postgres.url, "postgres://env");
        assert_eq!(config.postgres.max_connections, 3);
        assert_eq!(config.edge.trusted_proxies.len(), 2);
    }

    #[test]
    fn an_unknown_key_names_its_neighbour() {
        let from_file = load("[postgres]\nulr = \"x\"\n", &[]).unwrap_err().to_string();
        assert_eq!(from_file, "unknown configuration key postgres.ulr (in svc.toml); did you mean postgres.url?");
        let from_env = load("", &[("SVC__POSTGRESS__URL", "x")]).unwrap_err().to_string();
        assert!(from_env.ends_with("(in SVC__POSTGRESS__URL); did you mean [postgres]?"), "{from_env}");
    }

    #[test]
    fn a_table_that_is_not_set_by_default_is_given_as_json() {
        let account = r#"{"key_id":"kid-1","hmac_key":"c2VjcmV0"}"#;
        let config = load("", &[("SVC__ACME__EXTERNAL_ACCOUNT", account)]).unwrap();
        assert_eq!(config.acme.external_account.map(|account| account.key_id).as_deref(), Some("kid-1"));
        let error = load("", &[("SVC__ACME__FALLBACK", "{broken")]).unwrap_err().to_string();
        assert!(error.contains("SVC__ACME__FALLBACK") && error.contains("JSON"), "{error}");
    }

    #[test]
    fn a_list_of_tables_is_given_as_json() {
        let text = "[[billing.vat_rates]]\ncountry = \"NL\"\nfrom = \"2027-01-01\"\npercent = 22.5\n";
        let json = r#"[{"country":"NL","from":"2027-01-01","percent":22.5}]"#;
        let from_file = load(text, &[]).unwrap().billing.vat_rates;
        assert_eq!(from_file, load("", &[("SVC__BILLING__VAT_RATES", json)]).unwrap().billing.vat_rates);
        assert_ne!(from_file, Config::default().billing.vat_rates);
        for wrong in ["[broken", &json.replace("NL", "US"), &json.replace("22.5", "225"), "NL"] {
            let error = load("", &[("SVC__BILLING__VAT_RATES", wrong)]).unwrap_err().to_string();
            assert!(error.contains("billing") || error.contains("SVC__BILLING__VAT_RATES"), "{error}");
        }
    }

    #[test]
    fn an_apps_id_is_a_number_or_text() {
        for (text, env) in [("[code_host]\napp_id = 123\n", vec![]), ("", vec![("SVC__CODE_HOST__APP_ID", "123")])] {
            assert_eq!(load(text, &env).unwrap().code_host.app_id.as_deref(), Some("123"));
        }
        assert_eq!(load("[code_host]\nclient_id = \"x\"\n", &[]).unwrap().code_host.app_id, None);
    }

    #[test]
    fn a_wrong_type_names_its_key_or_variable() {
        let error = load("[postgres]\nmax_connections = \"many\"\n", &[]).unwrap_err().to_string();
        let wanted = "configuration: postgres.max_connections: it is string \"many\", and must be a whole number, without quotes";
        assert_eq!(error, wanted);
        let error = load("[postgres]\nurl = postgres\n", &[]).unwrap_err().to_string();
        assert!(error.contains("line 2, column 7: ") && error.lines().count() == 1, "{error}");
        let error = load("", &[("SVC__POSTGRES__MAX_CONNECTIONS", "many")]).unwrap_err().to_string();
        assert!(error.contains("SVC__POSTGRES__MAX_CONNECTIONS"), "{error}");
    }
}
