//! `.svc/up.json` of a folder that came from elsewhere, as a clone does: the client must not be led by it.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::world::{World, process::program};

/// Whoever wrote the file: counts the connections that are made to it.
struct Sink {
    address: String,
    connections: Arc<AtomicUsize>,
}

impl Sink {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, connections }
    }

    fn assert_not_asked(&self, what: &str) {
        assert_eq!(self.connections.load(Ordering::SeqCst), 0, "{what}: the client went to the file's address");
    }
}

/// A person's machine: a home folder, and a folder that came from elsewhere.
struct Machine {
    home: tempfile::TempDir,
    api: String,
    ca: PathBuf,
}

impl Machine {
    fn new(world: &World) -> Self {
        let home = tempfile::tempdir_in(world.folder()).unwrap();
        std::fs::create_dir_all(home.path().join("clone/.svc")).unwrap();
        let api = format!("https://api.svc.localhost:{}", world.public_port());
        Self { home, api, ca: world.ca().to_owned() }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("clone")
    }

    fn up_file(&self, up: &Value) -> PathBuf {
        let file = self.folder().join(".svc/up.json");
        std::fs::write(&file, up.to_string()).unwrap();
        set_mode(&file, 0o600);
        set_mode(&self.folder().join(".svc"), 0o711);
        file
    }

    /// Saves a login at the world's API, as `svc login` does.
    fn save_login(&self, token: &str) {
        let folder = self.home.path().join(".config/svc");
        std::fs::create_dir_all(&folder).unwrap();
        let login = json!({ "token": token, "vcs_login": "ada", "ca_file": self.ca });
        let logins = json!({ "default_api": self.api, "logins": { &self.api: login } });
        std::fs::write(folder.join("credentials.json"), logins.to_string()).unwrap();
    }

    /// Runs `svc` in the folder that came from elsewhere, on a terminal or without one.
    async fn svc(&self, terminal: bool, args: &str, variables: &[(&str, &str)]) -> Output {
        let svc = format!("{} {args}", program("svc").display());
        let mut command = Command::new("timeout");
        command.arg("60");
        if terminal {
            command.args(["script", "--quiet", "--return", "--command", &svc, "/dev/null"]);
        } else {
            command.args(["sh", "-c", &svc]);
        }
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.home.path());
        command.envs(variables.iter().copied()).current_dir(self.folder()).stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn it_gets_neither_prompts_nor_keys_of_somebody_who_is_signed_in() {
    let world = World::start().await;
    let machine = Machine::new(&world);
    machine.save_login(world.user("ada").await.token.as_deref().unwrap());
    let sink = Sink::start().await;
    machine.up_file(&json!({ "base_url": machine.api, "ai_url": sink.address }));
    for terminal in [true, false] {
        machine.svc(terminal, "ai chat hello", &[]).await;
        sink.assert_not_asked("a chat");
    }
}

#[tokio::test]
async fn it_gets_no_token_from_the_environment() {
    let world = World::start().await;
    let machine = Machine::new(&world);
    let token = world.user("ada").await.token.unwrap();
    let sink = Sink::start().await;
    machine.up_file(&json!({ "base_url": sink.address, "ai_url": sink.address, "token": token }));
    let state = machine.folder().join(".svc");
    let named = ("SVC_STATE_DIR", state.to_str().unwrap());
    for (terminal, variables) in [(true, vec![]), (false, vec![]), (false, vec![named])] {
        let variables = [variables, vec![("SVC_TOKEN", token.as_str())]].concat();
        let output = machine.svc(terminal, "projects", &variables).await;
        assert!(!output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("SVC_API_URL"), "the next step is not named: {}", said(&output));
        sink.assert_not_asked("a token");
    }
    // Where it belongs, the token works, whatever lies in the folder.
    let ca = machine.ca.to_str().unwrap();
    let here = [("SVC_TOKEN", token.as_str()), ("SVC_API_URL", machine.api.as_str()), ("SVC_CA_FILE", ca)];
    let output = machine.svc(false, "whoami", &here).await;
    assert!(output.status.success() && said(&output).contains("ada"), "{}", said(&output));
    sink.assert_not_asked("whoami");
}

#[tokio::test]
async fn its_certificate_authority_is_not_trusted() {
    let world = World::start().await;
    let machine = Machine::new(&world);
    machine.save_login(world.user("ada").await.token.as_deref().unwrap());
    let key = rcgen::generate_simple_self_signed(vec!["api.svc.localhost".to_owned()]).unwrap();
    let foreign = machine.folder().join("ca.pem");
    std::fs::write(&foreign, key.cert.pem()).unwrap();
    machine.up_file(&json!({ "base_url": machine.api, "ca_file": foreign }));
    // The login's own authority is: in its place the foreign one would make this fail.
    for terminal in [true, false] {
        let output = machine.svc(terminal, "whoami", &[]).await;
        assert!(output.status.success() && said(&output).contains("ada"), "{}", said(&output));
    }
}

#[tokio::test]
async fn only_ones_own_file_of_this_machine_counts_and_it_is_named() {
    let world = World::start().await;
    let machine = Machine::new(&world);
    let token = world.user("ada").await.token.unwrap();
    let own = json!({ "base_url": machine.api, "token": token, "ca_file": machine.ca });
    let file = machine.up_file(&own);
    let state = machine.folder().join(".svc");
    let named = [("SVC_STATE_DIR", state.to_str().unwrap())];
    for (terminal, variables) in [(true, &[][..]), (true, &named), (false, &named)] {
        let output = machine.svc(terminal, "whoami", variables).await;
        assert!(output.status.success() && said(&output).contains("ada"), "{}", said(&output));
        assert!(said(&output).contains(".svc/up.json"), "which file was taken is not said: {}", said(&output));
    }
    let output = machine.svc(false, "whoami", &[]).await;
    assert!(!output.status.success() && said(&output).contains("SVC_STATE_DIR"), "{}", said(&output));

    for (path, mode) in [(file.as_path(), 0o622), (state.as_path(), 0o777)] {
        machine.up_file(&own);
        set_mode(path, mode);
        for variables in [&[][..], &named] {
            let output = machine.svc(true, "whoami", variables).await;
            assert!(!output.status.success(), "{} {mode:o}: {}", path.display(), said(&output));
            assert!(said(&output).contains("up.json") && said(&output).contains("only you"), "{}", said(&output));
        }
    }
    machine.up_file(&json!({ "base_url": "https://api.evil.example", "token": token }));
    let output = machine.svc(true, "whoami", &named).await;
    assert!(!output.status.success() && said(&output).contains("this machine"), "{}", said(&output));
}
