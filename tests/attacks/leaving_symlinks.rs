//! Symlinks that lead out of the folder that is published: whoever made the folder chose which file of this machine they name.

use std::{
    io::Write as _,
    os::unix::fs::symlink,
    process::{Command, Output, Stdio},
};

use crate::world::{World, process::program};

struct Folder {
    home: tempfile::TempDir,
    api: String,
    ca: std::path::PathBuf,
    token: String,
}

impl Folder {
    async fn new(world: &World) -> Self {
        let home = tempfile::tempdir_in(world.folder()).unwrap();
        for (path, text) in [("site/index.html", "home"), ("private/notes.txt", "for myself")] {
            std::fs::create_dir_all(home.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(home.path().join(path), text).unwrap();
        }
        symlink("../private/notes.txt", home.path().join("site/picture.txt")).unwrap();
        let api = format!("https://api.svc.localhost:{}", world.public_port());
        Self { home, api, ca: world.ca().to_owned(), token: world.user("ada").await.token.unwrap() }
    }

    /// Runs `svc deploy site …`; on a terminal when there is something to answer there.
    async fn deploy(&self, rest: &str, typed: Option<&str>) -> Output {
        let svc = format!("{} deploy site --project engine {rest}", program("svc").display());
        let mut command = Command::new("timeout");
        command.arg("60");
        match typed {
            Some(_) => command.args(["script", "--quiet", "--return", "--command", &svc, "/dev/null"]),
            None => command.args(["sh", "-c", &svc]),
        };
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.home.path());
        command.env("SVC_API_URL", &self.api).env("SVC_CA_FILE", &self.ca).env("SVC_TOKEN", &self.token);
        command.current_dir(self.home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let typed = typed.unwrap_or_default().to_owned();
        let run = move || {
            let mut child = command.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            // Kept open until the program has ended: its end would be typed too.
            stdin.write_all(typed.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            drop(stdin);
            output
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn they_are_followed_only_when_the_person_says_so() {
    let world = World::start().await;
    let folder = Folder::new(&world).await;
    let linked = format!("{}/picture.txt", world.site_url("engine"));

    let refused = folder.deploy("", None).await;
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("picture.txt") && said(&refused).contains("--follow"), "{}", said(&refused));
    let declined = folder.deploy("", Some("n\n")).await;
    assert_eq!(declined.status.code(), Some(1), "{}", said(&declined));
    assert!(said(&declined).contains("notes.txt"), "what it leads to is not said: {}", said(&declined));
    world.edge().get(&linked).await.assert_status(404);

    let agreed = folder.deploy("", Some("y\n")).await;
    assert!(agreed.status.success(), "{}", said(&agreed));
    world.edge().get(&linked).await.assert_body(200, "for myself");
    std::fs::write(folder.home.path().join("private/notes.txt"), "newer").unwrap();
    let told = folder.deploy("--follow", None).await;
    assert!(told.status.success(), "{}", said(&told));
    world.edge().get(&linked).await.assert_body(200, "newer");
}

#[tokio::test]
async fn the_environment_of_a_build_is_not_published() {
    let world = World::start().await;
    let folder = Folder::new(&world).await;
    std::fs::remove_file(folder.home.path().join("site/picture.txt")).unwrap();
    symlink("/proc/self/environ", folder.home.path().join("site/env.txt")).unwrap();
    let refused = folder.deploy("", None).await;
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("env.txt") && said(&refused).contains("--follow"), "{}", said(&refused));
}
