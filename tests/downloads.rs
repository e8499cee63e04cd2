//! Downloads of deployments: `…/deployments/{id}/archive` and `svc download`. What comes out is what went in.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
    time::Duration,
};

use reqwest::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::{process::Command, task::JoinSet};

use crate::{
    cli::Shell,
    payers::{count_on, counted},
    stubs::latency,
    world::{Actor, Site, World, answer::Answer, site::noise, tools},
};

/// Reads an archive as Python's own modules do: the hash of each member by its name, and its mode and date.
const READ: &str = r#"
import hashlib, json, sys, tarfile, zipfile
found = {}
if sys.argv[2] == "zip":
    with zipfile.ZipFile(sys.argv[1]) as archive:
        assert archive.testzip() is None
        for one in archive.infolist():
            # Readers that know the Unicode path field take a name without the flag for UTF-8 where the field says so.
            name = one.filename if one.flag_bits & 0x800 else one.filename.encode("cp437").decode()
            assert name not in found and not one.is_dir() and one.external_attr >> 16 == 0o100644, name
            found[name] = hashlib.sha256(archive.read(one)).hexdigest()
else:
    with tarfile.open(sys.argv[1], "r:gz") as archive:
        dates = set()
        for one in archive:
            assert one.isreg() and one.mode == 0o644 and (one.uid, one.gid, one.uname, one.gname) == (0, 0, "", ""), one.name
            assert one.name not in found, one.name
            dates.add(one.mtime)
            found[one.name] = hashlib.sha256(archive.extractfile(one).read()).hexdigest()
        assert len(dates) == 1 and list(found) == sorted(found, key=str.encode), (dates, list(found))
print(json.dumps(found))
"#;

fn path(deployment: &str, format: &str) -> String {
    format!("/projects/engine/deployments/{deployment}/archive{format}")
}

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Has the readers that people have at hand test an archive. They are stricter than Python in some things.
async fn assert_readable(file: &Path, format: &str) {
    let (unzip, bsdtar): (&[&str], &[&str]) = (&["unzip", "-tqq"], &["bsdtar", "-tf"]);
    let readers = if format == "zip" { vec![unzip, bsdtar] } else { vec![bsdtar] };
    for reader in readers {
        let output = Command::new(reader[0]).args(&reader[1..]).arg(file).output().await.unwrap();
        assert!(output.status.success(), "{reader:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The hash of each file of an archive.
async fn read(world: &World, archive: &[u8], format: &str) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir_in(world.folder()).unwrap();
    let file = folder.path().join("archive");
    fs::write(&file, archive).unwrap();
    assert_readable(&file, format).await;
    let output = tools::program("python3").args(["-c", READ]).arg(&file).arg(format).output().await.unwrap();
    assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The hash of each file below a folder.
fn read_folder(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, sha256(fs::read(path).unwrap()));
            }
        }
    }
    found
}

/// A site with everything that is hard to bring back, and what must come back.
fn hard_site() -> (Site, BTreeMap<String, String>) {
    let long = format!("{}/{}.txt", "folder of a long name ".repeat(8).trim(), "n".repeat(180));
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("index.html", b"<p>one</p>".to_vec()),
        ("empty.txt", Vec::new()),
        ("a/b/c.txt", b"c".to_vec()),
        ("a.b", b"before a/".to_vec()),
        ("same.txt", b"c".to_vec()),
        ("ü & +.html", "ü".into()),
        ("日本/語.txt", "語".into()),
        ("<x> 'y' ~.html", b"x".to_vec()),
        ("File:A.html", b"a colon".to_vec()),
        ("A.html", b"no colon".to_vec()),
        ("File:É.html", "É".into()),
        ("a..b", b"dots".to_vec()),
        (&long, b"long".to_vec()),
        ("large.txt", b"a line of text that is compressed well\n".repeat(500_000)),
        ("noise.bin", noise(3_000_000)),
        // Compressed already, and sent so.
        ("logo.svgz", crate::world::site::gzip(b"<svg xmlns='http://www.w3.org/2000/svg'/>")),
        ("_redirects", b"/old /new 301\n# a note\n".to_vec()),
        ("_headers", b"/*\n  X-A: b\n".to_vec()),
    ];
    let site = files.iter().fold(Site::new(), |site, (path, body)| site.file(path, body));
    let hashes = files.iter().map(|(path, body)| ((*path).to_owned(), sha256(body))).collect();
    (site, hashes)
}

async fn archive(actor: &Actor, deployment: &str, format: &str) -> Answer {
    let answer = actor.get(&path(deployment, format)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

#[tokio::test]
async fn what_was_uploaded_comes_back() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let (site, wanted) = hard_site();
    let deployed = ada.publish("engine", &site).await;
    for (query, format, kind) in [
        ("", "tar.gz", "application/gzip"),
        ("?format=tar.gz", "tar.gz", "application/gzip"),
        ("?format=zip", "zip", "application/zip"),
    ] {
        let answer = archive(&ada, &deployed.id, query).await;
        assert_eq!(answer.header("content-type"), kind);
        let named = format!("attachment; filename=\"engine-{}.{format}\"", deployed.id);
        assert_eq!(answer.header("content-disposition"), named);
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(read(&world, &answer.body, format).await, wanted, "{format}");
        let again = archive(&ada, &deployed.id, query).await;
        assert!(again.body == answer.body, "the same deployment gives the same bytes: {format}");
        let head = ada.request(Method::HEAD, &path(&deployed.id, query)).await;
        assert_eq!((head.status.as_u16(), head.header("content-type"), head.body.len()), (200, kind, 0));
    }
    // What was downloaded can be published again.
    let tarball = archive(&ada, &deployed.id, "").await.body;
    let again = ada.post("/projects/engine/deployments").upload(tarball).await.created();
    let again = archive(&ada, again["deployment_id"].as_str().unwrap(), "?format=zip").await;
    assert_eq!(read(&world, &again.body, "zip").await, wanted);
}

#[tokio::test]
async fn what_is_gone_or_asked_for_wrongly_says_so() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one")).await;
    ada.deploy("engine", &Site::page("two")).await;
    for format in ["?format=rar", "?format=", "?format=ZIP"] {
        let told = ada.get(&path(&first.id, format)).await.assert_error(400, "invalid_request");
        assert!(told.contains("format") && told.contains("tar.gz"), "{told}");
    }
    archive(&ada, &first.id, "").await;
    ada.delete(&format!("/projects/engine/deployments/{}", first.id)).await.ok();
    let told = ada.get(&path(&first.id, "")).await.assert_error(404, "not_found");
    assert!(told.contains("deleted"), "{told}");
}

#[tokio::test]
async fn passwords_do_not_come_back_and_leave_their_paths_shut() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let rules = "/*\n  X-A: b\n/drafts/*\n  Basic-Auth: ann:open-sesame\n";
    let site = Site::page("one").file("drafts/a.html", "draft").file("_headers", rules);
    let deployed = ada.publish("engine", &site).await;
    let tarball = archive(&ada, &deployed.id, "").await.body;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&tarball[..]), &mut text).unwrap();
    assert!(text.contains("X-A: b") && text.contains("Basic-Auth:\n") && !text.contains("sesame"), "{text}");
    let again = ada.post("/projects/engine/deployments").upload(tarball).await.created();
    let told = again["warnings"].to_string();
    assert!(told.contains("nobody may see these paths"), "{told}");
}

#[tokio::test]
async fn an_archive_that_breaks_off_has_no_end() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let deployed = ada.publish("engine", &Site::page("one").file("film.bin", noise(2_000_000))).await;
    let pack = world.folder().join("store/deployments").join(&deployed.id);
    let manifest: Value = serde_json::from_slice(&fs::read(pack.join("manifest")).unwrap()).unwrap();
    let film = manifest["files"]["film.bin"]["identity"]["offset"].as_u64().unwrap();
    let data = File::options().read(true).write(true).open(pack.join("data")).unwrap();
    let mut byte = [0];
    data.read_exact_at(&mut byte, film + 1_500_000).unwrap();
    data.write_all_at(&[byte[0] ^ 1], film + 1_500_000).unwrap();
    for format in ["", "?format=zip"] {
        let (answer, body) = ada.get(&path(&deployed.id, format)).open().await;
        assert_eq!(answer.status, 200);
        assert!(body.unwrap().bytes().await.is_err(), "{format}");
    }
    let shell = Shell::new(&world, ada.token);
    let outcome = shell.run(&["download", "-p", "engine"]).await;
    assert_eq!(outcome.code, 7, "{}", outcome.err);
    let left: Vec<_> = fs::read_dir(shell.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("engine")), "{left:?}");
}

/// What is larger than all that is read ahead on the way comes through an edge.
#[tokio::test]
async fn who_left_the_org_gets_no_more_of_an_archive() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.owner.create_project_in(&staff.org, "engine").await;
    // More than waits between a server and a client that takes nothing.
    let site = (0..3).fold(Site::page("ours"), |site, n| site.file(&format!("{n}.bin"), noise(20_000_000)));
    let deployed = staff.owner.deploy("engine", &site).await;
    let (answer, response) = staff.member.get(&path(&deployed.id, "")).open().await;
    answer.assert_status(200);
    let mut response = response.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    staff.owner.delete("/orgs/acme/members/org-member").await.ok();
    // A reader that takes its time: the next look at the right comes before anything else is taken.
    latency(Duration::from_secs(12)).await;
    let broke_off = loop {
        match response.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(broke_off, "the archive came to its end");
}

/// A few accounts that hold as many downloads as the server has, and read them at a trickle.
#[tokio::test]
async fn trickles_keep_no_stranger_out() {
    const ACCOUNTS: usize = 7;
    const EACH: usize = 4;
    let world = World::start().await;
    let bob = world.user("bob").await;
    let wanted = bob.publish("modest", &Site::page("small")).await;
    // More than waits between a server and a client that takes nothing.
    let film = noise(24_000_000);
    let mut readers = JoinSet::new();
    for number in 0..ACCOUNTS {
        let greedy = world.user(&format!("greedy-{number}")).await;
        let project = format!("film-{number}");
        let deployed = greedy.publish(&project, &Site::page("ours").file("film.bin", film.clone())).await;
        let path = format!("/projects/{project}/deployments/{}/archive", deployed.id);
        for _ in 0..EACH {
            let (answer, response) = greedy.get(&path).open().await;
            // Beyond its share, an account is refused.
            let Some(mut response) = response else {
                answer.assert_error(503, "busy");
                break;
            };
            readers.spawn(async move {
                while let Ok(Some(_)) = response.chunk().await {
                    latency(Duration::from_secs(1)).await;
                }
            });
        }
    }
    assert!(readers.len() >= 16, "{} downloads are under way", readers.len());
    let begun: u64 = counted(&world, "download-megabytes").await.into_iter().sum();
    assert_eq!(begun, 23 * u64::try_from(readers.len()).unwrap(), "those that were refused are not counted");
    let answer = bob.get(&format!("/projects/modest/deployments/{}/archive", wanted.id)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        read(&world, &answer.body, "tar.gz").await,
        BTreeMap::from([("index.html".to_owned(), sha256("small"))])
    );
    assert!(!readers.is_empty());
    readers.shutdown().await;
}

#[tokio::test]
async fn a_person_downloads_so_many_bytes_an_hour() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.owner.create_project_in(&staff.org, "engine").await;
    let deployed = staff.owner.deploy("engine", &Site::page("one").file("film.bin", noise(3_000_000))).await;
    archive(&staff.member, &deployed.id, "").await;
    assert_eq!(counted(&world, "download-megabytes").await, [3], "each begun megabyte counts");
    count_on(&world, "download-megabytes", 19_998).await;
    let refused = staff.member.get(&path(&deployed.id, "")).await;
    assert!(!refused.header("retry-after").is_empty());
    let told = refused.assert_error(429, "rate_limit_exceeded");
    assert!(told.contains("bytes"), "{told}");
    // It is the member's, not the creator's.
    archive(&staff.owner, &deployed.id, "").await;
}

#[tokio::test]
async fn a_large_deployment_comes_through_an_edge() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let films: Vec<_> = (0..3).map(|n| (format!("film-{n}.bin"), noise(24_000_000))).collect();
    let site = films.iter().fold(Site::new(), |site, (path, body)| site.file(path, body));
    let deployed = ada.publish("engine", &site).await;
    let wanted: BTreeMap<_, _> = films.iter().map(|(path, body)| (path.clone(), sha256(body))).collect();
    let shell = Shell::new(&world, ada.token);
    let document = shell.json(&["download", &deployed.id, "--extract", "films"]).await;
    assert_eq!(document["bytes"], 72_000_000);
    assert_eq!(read_folder(&shell.folder().join("films")), wanted);
    shell.json(&["download", &deployed.id, "--format", "zip", "-o", "films.zip"]).await;
    assert_eq!(read(&world, &fs::read(shell.folder().join("films.zip")).unwrap(), "zip").await, wanted);
}

#[tokio::test]
async fn svc_downloads_to_a_file_a_folder_and_stdout() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let (site, wanted) = hard_site();
    let first = ada.publish("engine", &site).await;
    let second = ada.deploy("engine", &Site::page("two")).await;
    let shell = Shell::new(&world, ada.token);
    let file = |name: &str| fs::read(shell.folder().join(name)).unwrap();

    // The live one, into the current folder.
    let name = format!("engine-{}.tar.gz", second.id);
    let outcome = shell.run(&["download", "-p", "engine"]).await;
    assert_eq!((outcome.code, outcome.out.trim()), (0, &*name), "{}", outcome.err);
    assert!(outcome.err.contains(&name), "{}", outcome.err);
    assert_eq!(read(&world, &file(&name), "tar.gz").await, BTreeMap::from([("index.html".to_owned(), sha256("two"))]));
    let outcome = shell.run(&["download", "-p", "engine"]).await;
    assert_eq!((outcome.code, outcome.err.contains("--force")), (5, true), "{}", outcome.err);
    shell.text(&["download", "-p", "engine", "--force"]).await;

    // Another, as a zip archive; an id needs no project.
    let document = shell.json(&["download", &first.id, "--format", "zip", "--output", "site.zip"]).await;
    assert_eq!((&document["file"], &document["deployment_id"]), (&"site.zip".into(), &first.id.clone().into()));
    assert_eq!(document["bytes"], file("site.zip").len());
    assert_eq!(read(&world, &file("site.zip"), "zip").await, wanted);
    fs::create_dir(shell.folder().join("downloads")).unwrap();
    shell.text(&["download", &second.id, "--output", "downloads"]).await;
    assert_eq!(file(&format!("downloads/{name}")), file(&name));
    let stdout = shell.output(&["download", &first.id, "-o", "-"], "").await;
    assert!(stdout.status.success(), "{}", String::from_utf8_lossy(&stdout.stderr));
    assert_eq!(read(&world, &stdout.stdout, "tar.gz").await, wanted);
    assert_eq!(shell.run(&["--json", "download", &first.id, "-o", "-"]).await.code, 2);

    // Unpacked, into a folder that is new, empty, or may be written over.
    let document = shell.json(&["download", &first.id, "--extract", "deep/site"]).await;
    assert_eq!((&document["folder"], &document["files"]), (&"deep/site".into(), &wanted.len().into()));
    assert_eq!(read_folder(&shell.folder().join("deep/site")), wanted);
    let outcome = shell.run(&["download", &second.id, "--extract", "deep/site"]).await;
    assert_eq!((outcome.code, outcome.err.contains("not empty")), (5, true), "{}", outcome.err);
    shell.text(&["download", &second.id, "--extract", "deep/site", "--force"]).await;
    assert_eq!(file("deep/site/index.html"), b"two");

    let outcome = shell.run(&["download", "dep_00000000000000000000", "-p", "engine"]).await;
    assert_eq!(outcome.code, 4, "{}", outcome.err);
    assert_eq!(shell.run(&["download", &first.id, "--extract", "x", "--output", "y"]).await.code, 2);
}
