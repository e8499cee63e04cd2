//! The operator's tool for keys and certificates.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use certs::{
    chain::Chain,
    import::{self, Imported},
    listing,
    local_ca::{self, LocalCa, Outcome},
    private_file, rotation,
};
use clap::{Parser, Subcommand};
use config::Config;
use domain::Clock;
use secrets::{MasterKey, master_key::Key};
use sqlx::PgPool;

/// Most bytes of a file that is read: far more than a chain or a key has.
const PEM_BYTES: u64 = 1024 * 1024;
const NO_DATABASE: &str = "the database does not answer as it should (postgres.url; `admin migrate` makes its tables)";

/// Makes and keeps the keys and certificates of an installation.
#[derive(Parser)]
#[command(name = "certs", version)]
struct Arguments {
    /// The configuration file; else the one `SVC_CONFIG` names, else `svc.toml` here.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes a new master key to FILE, readable by you alone. Keep a copy: without it nothing sealed opens again.
    MasterKey {
        /// The file to write; refused when it exists.
        file: PathBuf,
    },
    /// Exchanges the master key for a new one while the programs run, and seals every stored secret anew. May be
    /// interrupted and run again. The old key stays in the key file, as long as it may be needed.
    RotateKey {
        #[command(flatten)]
        how: Rotation,
    },
    /// Makes or renews the certificate of the configured domains, with an authority kept in DIR, and stores it.
    LocalCa {
        /// The authority's folder: ca.pem, which visitors must trust, and ca.key.
        #[arg(long)]
        dir: PathBuf,
        /// A hostname beside them, to try a custom domain on this machine: it gets a certificate of its own.
        /// Repeatable.
        #[arg(long = "name", value_name = "HOST")]
        names: Vec<String>,
    },
    /// Stores a certificate of yours, which edges then present for the names in it. May be run after every renewal.
    Import {
        /// PEM: the leaf, then its intermediates (fullchain.pem).
        #[arg(long, value_name = "FILE")]
        chain: PathBuf,
        /// PEM: its private key, without a passphrase (privkey.pem).
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Lists the stored certificates; those that end first come first.
    List,
}

/// The extent of a rotation.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Rotation {
    /// Only adds a key, which opens but does not seal yet. With programs on several machines: prepare, copy the key
    /// file to all of them, then rotate.
    #[arg(long)]
    prepare: bool,
    /// Forgets the old keys, once nothing is sealed with them any more. Copy the key file to all machines again before
    /// and after.
    #[arg(long)]
    finish: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(said) => {
            // Standard output may be closed; the work is done all the same.
            let _ = writeln!(io::stdout(), "{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "certs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<String> {
    match &arguments.command {
        Command::MasterKey { file } => {
            private_file::create(file, &format!("{}\n", Key::generate().to_base64()))
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok(format!("wrote a new master key to {}", file.display()))
        }
        Command::RotateKey { how } => {
            let config = Config::load(arguments.config.as_deref())?;
            let file = &config.secrets.master_key_file;
            let rotate = async {
                let db = database(&config)?;
                Ok(match how {
                    Rotation { prepare: true, .. } => rotation::prepare(file)?.to_string(),
                    Rotation { finish: true, .. } => rotation::finish(&db, file).await?.to_string(),
                    Rotation { .. } => rotation::rotate(&db, file).await?.to_string(),
                })
            };
            runtime()?.block_on(rotate)
        }
        Command::LocalCa { dir, names } => {
            let config = Config::load(arguments.config.as_deref())?;
            runtime()?.block_on(renew_local(&config, dir, names))
        }
        Command::Import { chain, key } => {
            let config = Config::load(arguments.config.as_deref())?;
            runtime()?.block_on(bring(&config, chain, key))
        }
        Command::List => {
            let config = Config::load(arguments.config.as_deref())?;
            runtime()?.block_on(list(&config))
        }
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn renew_local(config: &Config, dir: &Path, extra: &[String]) -> anyhow::Result<String> {
    let now = Clock::system().now();
    let master_key = MasterKey::load(&config.secrets.master_key_file)?;
    let (names, extra) = (local_ca::names(&config.site), local_ca::hostnames(extra)?);
    let ca = LocalCa::open_or_create(dir, &names, &extra, now)?;
    let db = database(config)?;
    let mut said = Vec::new();
    // One for each of the extra names: their visitors need not read in it which others there are.
    for names in std::iter::once(names.as_slice()).chain(extra.chunks(1)) {
        let shown = names.join(", ");
        said.push(match local_ca::renew(&db, &master_key, &ca, names, now).await? {
            Outcome::Kept => format!("the certificate for {shown} is good for longer; kept it"),
            Outcome::Issued => {
                format!("stored a new certificate for {shown}; visitors must trust {}/ca.pem", dir.display())
            }
        });
    }
    Ok(said.join("\n"))
}

async fn bring(config: &Config, chain: &Path, key: &Path) -> anyhow::Result<String> {
    let now = Clock::system().now();
    let master_key = MasterKey::load(&config.secrets.master_key_file)?;
    let judged = Chain::judge(&read(chain)?, &read(key)?, now).context("this certificate cannot be used")?;
    let db = database(config)?;
    let names = judged.names.join(", ");
    let said = match import::import(&db, &master_key, &judged, now).await.context(NO_DATABASE)? {
        Imported::Before => format!("the certificate for {names} was imported before; nothing has changed"),
        Imported::Now => format!(
            "stored the certificate for {names}, issued by {} and valid until {}; edges present it within half a minute",
            judged.issuer, judged.not_after
        ),
    };
    let notes = judged.notes.iter().map(|note| format!("note: {note}"));
    Ok(std::iter::once(said).chain(notes).collect::<Vec<_>>().join("\n"))
}

async fn list(config: &Config) -> anyhow::Result<String> {
    let mut table = Vec::new();
    listing::write(&database(config)?, Clock::system().now(), &mut table).await.context(NO_DATABASE)?;
    Ok(String::from_utf8(table)?.trim_end().to_owned())
}

fn database(config: &Config) -> anyhow::Result<PgPool> {
    db::connect(&config.postgres, &config.postgres.url).context("postgres.url")
}

/// The whole of a file, if it is as small as such files are.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = File::open(file).and_then(|opened| opened.take(PEM_BYTES + 1).read_to_end(&mut bytes));
    opened.with_context(|| format!("cannot read {}", file.display()))?;
    anyhow::ensure!(bytes.len() as u64 <= PEM_BYTES, "{} is too large to be a certificate or a key", file.display());
    Ok(bytes)
}
