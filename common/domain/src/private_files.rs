//! Private files in published folders: recognized by name, and keys also by content.
//!
//! The client and the console leave out what is surely private ([`kind_by_path`], [`holds_key`]). The server, which
//! cannot ask, publishes everything it received and warns, including about possible page data
//! ([`possible_kind_by_path`]). The console has the same names in `private.ts`; both are tested against the paths of
//! `private_files/cases.txt`.

/// The content of a private file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrivateKind {
    /// Environment variables of a program.
    Environment,
    /// Passwords and tokens of tools.
    Credentials,
    /// Private keys.
    Keys,
    /// The state of an infrastructure tool, including passwords.
    State,
    /// Typed commands.
    History,
    /// A repository with its whole history.
    Repository,
}

impl PrivateKind {
    /// Returns a plural noun for files of this kind.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Environment => "environment variables",
            Self::Credentials => "credentials",
            Self::Keys => "private keys",
            Self::State => "the state of infrastructure",
            Self::History => "histories of commands",
            Self::Repository => "parts of a repository",
        }
    }
}

/// Bytes of a file that are searched for a private key, which may follow certificates.
pub const KEY_SEARCH_BYTES: usize = 64 * 1024;

/// Parts after `.env` and the like in files that are meant to be published.
const EXAMPLES: [&str; 6] = ["example", "sample", "template", "dist", "defaults", "schema"];
/// Names of environment variable files, optionally followed by a dot and more.
const ENVIRONMENTS: [&str; 2] = [".env", ".dev.vars"];
/// Parts accepted after `.env-` and `env.`. The list is closed because pages may have similar names.
const STAGES: [&str; 16] = [
    "prod",
    "production",
    "dev",
    "development",
    "test",
    "testing",
    "stage",
    "staging",
    "local",
    "live",
    "secret",
    "secrets",
    "private",
    "ci",
    "docker",
    "server",
];
/// Endings that programs and people give to an earlier version of a file.
const BACKUP_ENDINGS: [&str; 16] = [
    "~", ".bak", ".backup", ".old", ".orig", ".save", ".swp", ".swo", ".tmp", ".copy", " copy", "-copy", "_copy",
    "-backup", "_backup", "_bak",
];
/// Maximum number of backup endings removed from a name.
const BACKUPS: usize = 3;
const CREDENTIALS: [&str; 38] = [
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".htpasswd",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".s3cfg",
    ".boto",
    ".aws",
    ".azure",
    ".gcloud",
    ".kube",
    ".docker",
    ".dockercfg",
    ".vault-token",
    ".terraformrc",
    ".rclone.conf",
    "rclone.conf",
    ".ftpconfig",
    ".ftppass",
    "sftp-config.json",
    "wp-config.php",
    ".msmtprc",
    ".fetchmailrc",
    ".subversion",
    ".terraform.d",
    ".vault_pass",
    ".vault_pass.txt",
    ".vault-pass",
    ".vault_password",
    ".sentryclirc",
    ".lftprc",
    "application_default_credentials.json",
];
/// Name prefixes of JSON credentials.
const CREDENTIAL_BEGINNINGS: [&str; 2] = ["client_secret", "client-secret"];
/// The name of a cluster's credentials, alone or with a suffix, and the extensions that no page would have.
const KUBECONFIG: &str = "kubeconfig";
const KUBECONFIG_ENDINGS: [&str; 6] = ["yaml", "yml", "json", "conf", "config", "txt"];
/// Credential files that are only recognizable together with their folder's name.
const CREDENTIALS_IN: [(&str, &str); 12] = [
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    (".gem", "credentials"),
    (".vscode", "sftp.json"),
    (".streamlit", "secrets.toml"),
    (".composer", "auth.json"),
    (".m2", "settings.xml"),
    (".bundle", "config"),
    (".nuget", "nuget.config"),
    (".config", "gcloud"),
    ("gh", "hosts.yml"),
    ("config", "master.key"),
];
/// Names of files that may be credentials or a page's own data.
const POSSIBLE_CREDENTIALS: [&str; 11] = [
    "credentials.json",
    "credentials.yml",
    "credentials.yaml",
    "credentials.toml",
    "secrets.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.toml",
    "htpasswd",
    "local.settings.json",
    "master.key",
];
/// Name prefixes of JSON files that may be credentials.
const POSSIBLE_BEGINNINGS: [&str; 3] = ["service-account", "service_account", "firebase-adminsdk"];
const KEYS: [&str; 11] = [
    ".ssh",
    ".gnupg",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_ecdsa_sk",
    "id_ed25519_sk",
    "id_xmss",
    "secring.gpg",
    "wallet.dat",
];
/// Extensions of files that only hold keys.
const KEY_ENDINGS: [&str; 6] = [".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk"];
/// Extensions of files that hold keys, certificates or something else.
const POSSIBLE_KEY_ENDINGS: [&str; 3] = [".pem", ".key", ".asc"];
/// Extensions of pages, code and media, where a key is an example or absent.
const KEYLESS_ENDINGS: [&str; 36] = [
    ".html", ".htm", ".xhtml", ".js", ".mjs", ".cjs", ".css", ".map", ".svg", ".wasm", ".png", ".jpg", ".jpeg", ".gif",
    ".webp", ".avif", ".ico", ".woff", ".woff2", ".ttf", ".otf", ".eot", ".mp3", ".mp4", ".m4a", ".mov", ".ogg",
    ".webm", ".pdf", ".zip", ".gz", ".br", ".zst", ".ts", ".tsx", ".jsx",
];
const REPOSITORIES: [&str; 5] = [".git", ".hg", ".svn", ".bzr", ".jj"];

/// Returns the kind of private content that a file or folder of this name, or the file it is a backup of, surely holds.
pub fn kind_by_name(name: &str) -> Option<PrivateKind> {
    // File systems of macOS and Windows ignore case.
    let name = &*name.to_ascii_lowercase();
    by_name_or_original(name, kind_by_original_name)
}

/// Returns the kind of private content that the file at `path` surely or possibly holds.
pub fn possible_kind_by_path(path: &str) -> Option<PrivateKind> {
    kind_by_path(path).or_else(|| {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        let is_possible = |name: &str| {
            let is_begun = POSSIBLE_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
            (POSSIBLE_CREDENTIALS.contains(&name) || is_begun && has_any_suffix(name, &[".json"]))
                .then_some(PrivateKind::Credentials)
        };
        by_name_or_original(&name, is_possible)
    })
}

/// Calls `ask` with a name, then with the name of the file that it is an earlier version of.
fn by_name_or_original<T>(name: &str, ask: impl Fn(&str) -> Option<T>) -> Option<T> {
    ask(name).or_else(|| {
        let original = without_backup_marks(name);
        if original == name {
            return None;
        }
        // Vim puts a dot before the name.
        ask(original).or_else(|| ask(original.strip_prefix('.')?))
    })
}

/// Returns a lower-case name without the marks of an earlier version: `~`, `.bak`, `(1)` and the like.
pub fn without_backup_marks(name: &str) -> &str {
    let mut name = name;
    if let Some(inner) = name.strip_prefix('#').and_then(|rest| rest.strip_suffix('#')) {
        name = inner;
    }
    for _ in 0..BACKUPS {
        let numbered = name
            .strip_suffix(')')
            .map(|rest| rest.trim_end_matches(|c: char| c.is_ascii_digit()))
            .and_then(|rest| rest.strip_suffix('('))
            .map(str::trim_end);
        let shorter = numbered.or_else(|| BACKUP_ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)));
        match shorter.filter(|shorter| !shorter.is_empty()) {
            Some(shorter) => name = shorter,
            None => break,
        }
    }
    name
}

fn kind_by_original_name(name: &str) -> Option<PrivateKind> {
    let is_one_of = |names: &[&str]| names.contains(&name);
    if ENVIRONMENTS.iter().any(|environment| is_environment(name, environment))
        || is_one_of(&[".envrc", ".flaskenv"])
        || is_named_environment(name)
    {
        Some(PrivateKind::Environment)
    } else if is_one_of(&CREDENTIALS) || is_kubeconfig(name) || is_client_secret(name) {
        Some(PrivateKind::Credentials)
    } else if is_one_of(&KEYS) || has_any_suffix(name, &KEY_ENDINGS) {
        Some(PrivateKind::Keys)
    } else if name == ".terraform"
        || has_any_suffix(name, &[".tfstate", ".tfvars", ".tfvars.json"])
        || name.contains(".tfstate.")
    {
        Some(PrivateKind::State)
    } else if name.starts_with('.') && name.ends_with("_history") {
        Some(PrivateKind::History)
    } else {
        is_one_of(&REPOSITORIES).then_some(PrivateKind::Repository)
    }
}

/// Returns the kind of private content that the file at `path` surely holds, by its name or a parent folder's.
pub fn kind_by_path(path: &str) -> Option<PrivateKind> {
    let mut folder = "";
    path.split('/').find_map(|name| {
        let kind = kind_in(folder, name);
        folder = name;
        kind
    })
}

/// Returns the kind of private content that the file or folder `name` surely holds when its parent is named `folder`.
pub fn kind_in(folder: &str, name: &str) -> Option<PrivateKind> {
    let is_pair =
        |&(in_folder, file): &(&str, &str)| folder.eq_ignore_ascii_case(in_folder) && name.eq_ignore_ascii_case(file);
    kind_by_name(name).or_else(|| CREDENTIALS_IN.iter().any(is_pair).then_some(PrivateKind::Credentials))
}

/// Returns whether a file of this name may hold a private key, so that its content must be checked with [`holds_key`].
pub fn may_hold_key(name: &str) -> bool {
    !has_any_suffix(&name.to_ascii_lowercase(), &KEYLESS_ENDINGS)
}

/// Returns whether the file of this name and beginning ([`KEY_SEARCH_BYTES`]) holds a private key.
///
/// A key file begins with the key or certificates, unless its name marks it; a text about keys has one in the middle.
pub fn holds_key(name: &str, beginning: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let original = without_backup_marks(&name);
    if has_any_suffix(original, &POSSIBLE_KEY_ENDINGS)
        || original.starts_with("id_") && !has_any_suffix(original, &[".pub"])
    {
        return has_private_key(beginning);
    }
    if !may_hold_key(&name) {
        return false;
    }
    let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning).trim_ascii_start();
    let is_pem = [&b"-----BEGIN "[..], b"Bag Attributes"].iter().any(|begin| text.starts_with(begin));
    text.starts_with(b"PuTTY-User-Key-File-")
        || is_pem && has_private_key(text)
        || text.starts_with(b"{") && has_key_in_json(text)
}

/// Returns whether JSON has a private key field, like service accounts of cloud providers.
fn has_key_in_json(text: &[u8]) -> bool {
    const FIELD: &[u8] = b"\"private_key\"";
    text.windows(FIELD.len()).enumerate().filter(|(_, window)| *window == FIELD).any(|(at, _)| {
        let value = text[at + FIELD.len()..].trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        value.is_some_and(|value| value.starts_with(b"\"-----BEGIN "))
    })
}

/// Returns whether the beginning of a file has a private key in text (PEM) form.
fn has_private_key(beginning: &[u8]) -> bool {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const KEY: &[u8] = b"PRIVATE KEY";
    beginning.windows(BEGIN.len()).enumerate().filter(|(_, window)| *window == BEGIN).any(|(at, _)| {
        let line = beginning[at..].split(|&byte| byte == b'\n').next().unwrap_or_default();
        line.windows(KEY.len()).any(|window| window == KEY)
    })
}

fn is_environment(name: &str, environment: &str) -> bool {
    let Some(rest) = name.strip_prefix(environment) else { return false };
    let is_example = || rest.split('.').any(|part| EXAMPLES.contains(&part));
    let is_stage = || rest.strip_prefix(['-', '_']).is_some_and(|stage| STAGES.contains(&stage));
    rest.is_empty() || rest.starts_with('.') && !is_example() || is_stage()
}

/// Returns whether a name is that of an environment file without the leading dot: `prod.env`, `env.production`.
fn is_named_environment(name: &str) -> bool {
    let is_example = |part: &str| EXAMPLES.contains(&part);
    let before = name.strip_suffix(".env").filter(|before| !before.is_empty() && !before.split('.').any(is_example));
    let after = name.strip_prefix("env.").filter(|after| after.split('.').all(|stage| STAGES.contains(&stage)));
    before.is_some() || after.is_some()
}

fn is_kubeconfig(name: &str) -> bool {
    let is_named = || match name.rsplit_once('.') {
        Some((_, ending)) => KUBECONFIG_ENDINGS.contains(&ending),
        None => true,
    };
    name.strip_suffix(KUBECONFIG).is_some_and(|before| before.ends_with('.'))
        || name.starts_with(KUBECONFIG) && is_named()
}

fn is_client_secret(name: &str) -> bool {
    has_any_suffix(name, &[".json"]) && CREDENTIAL_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

fn has_any_suffix(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &str = include_str!("private_files/cases.txt");

    #[test]
    fn private_files_are_known_by_their_names() {
        let mut seen = 0;
        for line in CASES.lines().filter(|line| !line.starts_with("# ")) {
            let (wanted, path) = line.split_once(' ').expect("a verdict and a path");
            let verdict = match (kind_by_path(path), possible_kind_by_path(path)) {
                (Some(_), Some(_)) => "out",
                (None, Some(_)) => "said",
                (None, None) => "open",
                (Some(_), None) => "nonsense",
            };
            assert_eq!(verdict, wanted, "{path}");
            seen += 1;
        }
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn private_files_have_a_kind() {
        for (path, kind) in [
            ("prod.env~", PrivateKind::Environment),
            (".composer/auth.json", PrivateKind::Credentials),
            ("id_rsa (2)", PrivateKind::Keys),
            ("prod.tfvars.bak", PrivateKind::State),
            (".bash_history", PrivateKind::History),
            (".git/config", PrivateKind::Repository),
        ] {
            assert_eq!(kind_by_path(path), Some(kind), "{path}");
        }
    }

    #[test]
    fn keys_are_known_by_what_they_hold() {
        let pem = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n";
        let certificate = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n";
        let bag = "Bag Attributes\n friendlyName: x\n-----BEGIN PRIVATE KEY-----\nMII\n";
        let json = "{\"type\": \"service_account\", \"private_key\" : \"-----BEGIN PRIVATE KEY-----\\nMII\"}";
        let chain = format!("{certificate}{pem}");
        let article = format!("How to make a key:\n\n{pem}");
        for name in
            ["deploy_key", "github_rsa", "ssh_host_rsa_key", "key.txt", "chain.crt", "x.bak", "key.pem", "KEY.PEM~"]
        {
            for text in [pem, bag, &chain, &format!("\u{feff}{pem}"), &format!("\n{pem}")] {
                assert!(holds_key(name, text.as_bytes()), "{name}: {text}");
            }
            assert!(!holds_key(name, certificate.as_bytes()), "{name}");
        }
        assert!(holds_key("gcp.json", json.as_bytes()) && holds_key("id_work", article.as_bytes()));
        assert!(holds_key("key.txt2", b"PuTTY-User-Key-File-3: ssh-rsa\n"));
        for name in ["article.txt", "guide.md", "notes"] {
            assert!(!holds_key(name, article.as_bytes()), "{name}");
        }
        for name in ["page.html", "forge.js", "id_rsa.pub", "keys.css"] {
            assert!(name == "id_rsa.pub" || !holds_key(name, pem.as_bytes()), "{name}");
        }
        assert!(!holds_key("schema.json", b"{\"private_key\": {\"type\": \"string\"}}"));
        for key in ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            assert!(has_private_key(format!("{certificate}-----BEGIN {key}-----\nMII\n").as_bytes()), "{key}");
        }
        for text in ["", "-----BEGIN CERTIFICATE-----\nPRIVATE KEY", "-----BEGIN PUBLIC KEY-----\n", "PRIVATE KEY"] {
            assert!(!has_private_key(text.as_bytes()), "{text}");
        }
    }
}
