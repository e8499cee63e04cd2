//! Files that lie in folders which people publish, and that no visitor should read: known by their names, and keys by what they hold.

/// What a private file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrivateKind {
    /// Values that a program takes from its environment.
    Environment,
    /// Passwords and tokens of tools.
    Credentials,
    /// Private keys.
    Keys,
    /// What a tool that builds infrastructure knows of it, passwords included.
    State,
    /// What somebody typed.
    History,
    /// A repository, with all that was ever in it.
    Repository,
}

impl PrivateKind {
    /// A noun in the plural for files of this kind.
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

/// Bytes of a file that are searched for a private key. Certificates may stand before it.
pub const KEY_SEARCH_BYTES: usize = 64 * 1024;

/// What comes behind `.env` and the like in files that are made to be shown.
const EXAMPLES: [&str; 6] = ["example", "sample", "template", "dist", "defaults", "schema"];
/// Beginnings of the names of files with environment variables, which may go on with a dot.
const ENVIRONMENTS: [&str; 2] = [".env", ".dev.vars"];
const CREDENTIALS: [&str; 30] = [
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
];
/// Files of credentials whose names say so only together with their folder's.
const CREDENTIALS_IN: [(&str, &str); 4] =
    [(".cargo", "credentials"), (".cargo", "credentials.toml"), (".gem", "credentials"), (".vscode", "sftp.json")];
const KEYS: [&str; 9] =
    [".ssh", ".gnupg", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "id_xmss"];
/// Endings of files that hold nothing but keys.
const KEY_ENDINGS: [&str; 6] = [".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk"];
/// Endings of files that hold keys, certificates or something else.
const POSSIBLE_KEY_ENDINGS: [&str; 3] = [".pem", ".key", ".asc"];
const REPOSITORIES: [&str; 5] = [".git", ".hg", ".svn", ".bzr", ".jj"];

/// What the file or folder of this name holds that is private.
pub fn kind_of_name(name: &str) -> Option<PrivateKind> {
    // Disks of macOS and Windows take capitals for small letters.
    let name = &*name.to_ascii_lowercase();
    let is_one_of = |names: &[&str]| names.contains(&name);
    if ENVIRONMENTS.iter().any(|environment| is_environment(name, environment)) || is_one_of(&[".envrc", ".flaskenv"]) {
        Some(PrivateKind::Environment)
    } else if is_one_of(&CREDENTIALS) {
        Some(PrivateKind::Credentials)
    } else if is_one_of(&KEYS) || has_one_of(name, &KEY_ENDINGS) {
        Some(PrivateKind::Keys)
    } else if name == ".terraform"
        || has_one_of(name, &[".tfstate", ".tfvars", ".tfvars.json"])
        || name.contains(".tfstate.")
    {
        Some(PrivateKind::State)
    } else if name.starts_with('.') && name.ends_with("_history") {
        Some(PrivateKind::History)
    } else {
        is_one_of(&REPOSITORIES).then_some(PrivateKind::Repository)
    }
}

/// What the file at `path` holds that is private: by its own name, or that of a folder in which it is.
pub fn kind_of_path(path: &str) -> Option<PrivateKind> {
    let mut folder = "";
    path.split('/').find_map(|name| {
        let kind = kind_in(folder, name);
        folder = name;
        kind
    })
}

/// What the file or folder of this name, in a folder of that name, holds that is private.
pub fn kind_in(folder: &str, name: &str) -> Option<PrivateKind> {
    let is_pair =
        |&(in_folder, file): &(&str, &str)| folder.eq_ignore_ascii_case(in_folder) && name.eq_ignore_ascii_case(file);
    kind_of_name(name).or_else(|| CREDENTIALS_IN.iter().any(is_pair).then_some(PrivateKind::Credentials))
}

/// Whether the file of this name may hold a private key, which its content tells.
pub fn may_be_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    has_one_of(&name, &POSSIBLE_KEY_ENDINGS) || name.starts_with("id_") && !has_one_of(&name, &[".pub"])
}

/// Whether the beginning of a file has a private key, in the form that text files have.
pub fn has_private_key(beginning: &[u8]) -> bool {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const KEY: &[u8] = b"PRIVATE KEY";
    beginning.windows(BEGIN.len()).enumerate().filter(|(_, window)| *window == BEGIN).any(|(at, _)| {
        let line = beginning[at..].split(|&byte| byte == b'\n').next().unwrap_or_default();
        line.windows(KEY.len()).any(|window| window == KEY)
    })
}

fn is_environment(name: &str, environment: &str) -> bool {
    let Some(rest) = name.strip_prefix(environment) else { return false };
    let is_example = || rest.rsplit('.').next().is_some_and(|last| EXAMPLES.contains(&last));
    rest.is_empty() || rest.starts_with('.') && !is_example()
}

fn has_one_of(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_files_are_known_by_their_names() {
        for (path, kind) in [
            (".env", PrivateKind::Environment),
            (".env.production", PrivateKind::Environment),
            ("api/.ENV.local", PrivateKind::Environment),
            (".dev.vars", PrivateKind::Environment),
            (".npmrc", PrivateKind::Credentials),
            ("a/.aws/credentials", PrivateKind::Credentials),
            (".docker/config.json", PrivateKind::Credentials),
            (".cargo/credentials.toml", PrivateKind::Credentials),
            (".vscode/sftp.json", PrivateKind::Credentials),
            (".ssh/config", PrivateKind::Keys),
            ("keys/id_ed25519", PrivateKind::Keys),
            ("site.pfx", PrivateKind::Keys),
            ("terraform.tfstate.backup", PrivateKind::State),
            (".terraform/x", PrivateKind::State),
            ("prod.tfvars", PrivateKind::State),
            (".bash_history", PrivateKind::History),
            (".git/config", PrivateKind::Repository),
        ] {
            assert_eq!(kind_of_path(path), Some(kind), "{path}");
        }
        for path in [
            "index.html",
            ".env.example",
            ".env.production.sample",
            ".environment",
            "environment.js",
            ".envoy/x",
            "id_card.png",
            "id_rsa.pub",
            "key.pem",
            "a.key",
            ".well-known/security.txt",
            ".gitignore",
            ".github/x.yml",
            "credentials",
            "docker/config.json",
            "history",
            "assets/node_modules/x.js",
        ] {
            assert_eq!(kind_of_path(path), None, "{path}");
        }
    }

    #[test]
    fn keys_are_known_by_what_they_hold() {
        for name in ["a.pem", "A.KEY", "id_work", "secret.asc", "id_rsa.old"] {
            assert!(may_be_key(name), "{name}");
        }
        assert!(!may_be_key("id_rsa.pub") && !may_be_key("pem") && !may_be_key("keys.html"));
        for key in ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            let text =
                format!("-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n-----BEGIN {key}-----\nMII\n");
            assert!(has_private_key(text.as_bytes()), "{key}");
        }
        for text in ["", "-----BEGIN CERTIFICATE-----\nPRIVATE KEY", "-----BEGIN PUBLIC KEY-----\n", "PRIVATE KEY"] {
            assert!(!has_private_key(text.as_bytes()), "{text}");
        }
    }
}
