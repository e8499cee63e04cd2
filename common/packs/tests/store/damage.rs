//! Lost or damaged packs in the store: a check names the damage, and a replica restores the pack byte for byte.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use corpus::Tarball;
use domain::DeploymentId;
use packs::{DIGEST_BLOCK_BYTES, FaultKind, Manifest, ReadPace, Span, StoreError};

use crate::World;

/// Number of random faults, from `SVC_TEST_FAULTS`.
fn rounds() -> u64 {
    std::env::var("SVC_TEST_FAULTS").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}

/// Reproducible random numbers.
struct SeededRandom(u64);

impl SeededRandom {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % sides
    }
}

fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let mut dice = SeededRandom(7);
    let page: String = (0..30_000).fold(String::new(), |page, n| page + &format!("<p>{n} {}</p>\n", dice.roll(1_000)));
    let noise: Vec<u8> =
        (0..3 * DIGEST_BLOCK_BYTES + 100).map(|_| u8::try_from(dice.roll(256)).expect("a byte")).collect();
    vec![
        ("a.txt", b"small".to_vec()),
        ("copy/a.txt", b"small".to_vec()),
        ("empty", Vec::new()),
        ("noise.bin", noise),
        ("page.html", page.into_bytes()),
        ("style.css", "body { color: red }\n".repeat(40).into_bytes()),
    ]
}

async fn publish(world: &World) -> DeploymentId {
    let tarball = bodies().iter().fold(Tarball::new(), |tarball, (path, body)| tarball.file(path, body));
    let (id, published) = world.publish(&tarball.end()).await;
    published.expect("published");
    id
}

impl World {
    fn object(&self, id: &DeploymentId, object: &str) -> PathBuf {
        self.deployments().join(id.as_str()).join(object)
    }

    async fn fault(&self, id: &DeploymentId) -> Option<(FaultKind, Vec<String>)> {
        let step = self.store.check_whole(id, &mut ReadPace::new(None)).await.expect("checked");
        step.fault.map(|fault| (fault.kind, fault.paths))
    }
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("written");
}

fn cut(path: &Path, len: u64) {
    File::options().write(true).open(path).expect("opened").set_len(len).expect("cut");
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).expect("there").len()
}

fn objects(world: &World, id: &DeploymentId) -> BTreeMap<&'static str, Vec<u8>> {
    ["data", "manifest"].map(|object| (object, fs::read(world.object(id, object)).expect("read"))).into()
}

/// Asserts that every read of the pack returns the stored content or fails.
async fn assert_nothing_wrong_is_read(world: &World, id: &DeploymentId) {
    let Ok(manifest) = world.store.manifest(id).await else { return };
    for (path, content) in bodies() {
        for (encoding, body) in manifest.files[path].bodies() {
            let Ok(bytes) = world.store.read(id, body.span.offset, body.span.len).await else { continue };
            if encoding.is_none() && body.is_body(&bytes) {
                assert!(bytes == content, "{path}");
            }
            for (at, block) in bytes.chunks(DIGEST_BLOCK_BYTES).enumerate() {
                let start = at * DIGEST_BLOCK_BYTES;
                if encoding.is_none() && body.has_blocks(start as u64, block) {
                    assert!(block == &content[start..start + block.len()], "{path} {at}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_whole_pack_has_no_fault_and_can_be_checked_in_steps() {
    let world = World::new();
    let id = publish(&world).await;
    assert_eq!(world.fault(&id).await, None);
    let (mut from, mut steps) = (0, 0);
    loop {
        let step = world.store.check(&id, from, 1, &mut ReadPace::new(None)).await.expect("checked");
        assert_eq!(step.fault, None);
        steps += 1;
        match step.next {
            Some(next) => {
                assert!(next > from, "{next} after {from}");
                from = next;
            }
            None => break,
        }
    }
    assert!(steps > 1);
    world.store.probe(&id).await.expect("it can be served");
}

#[tokio::test]
async fn each_kind_of_fault_is_named_with_its_files() {
    let world = World::new();
    let lost = async |object: &str| {
        let id = publish(&world).await;
        fs::remove_file(world.object(&id, object)).expect("removed");
        assert!(world.store.probe(&id).await.expect_err("refused").is_pack_fault());
        world.fault(&id).await
    };
    assert_eq!(lost("manifest").await, Some((FaultKind::ManifestMissing, Vec::new())));
    let (kind, paths) = lost("data").await.expect("a fault");
    assert_eq!((kind, paths.len()), (FaultKind::DataMissing, bodies().len() - 1), "all but the empty one: {paths:?}");

    let id = publish(&world).await;
    let manifest = world.store.manifest(&id).await.expect("a manifest");
    flip(&world.object(&id, "data"), manifest.files["a.txt"].identity.offset + 1);
    let both = vec!["a.txt".to_owned(), "copy/a.txt".to_owned()];
    assert_eq!(world.fault(&id).await, Some((FaultKind::DataDamaged, both)));

    let id = publish(&world).await;
    let (_, variant) = world.store.manifest(&id).await.expect("a manifest").files["page.html"].variants[1];
    flip(&world.object(&id, "data"), variant.offset + variant.len - 1);
    assert_eq!(world.fault(&id).await, Some((FaultKind::DataDamaged, vec!["page.html".to_owned()])));

    let id = publish(&world).await;
    cut(&world.object(&id, "data"), len(&world.object(&id, "data")) - 1);
    assert_eq!(world.fault(&id).await.map(|(kind, paths)| (kind, paths.len())), Some((FaultKind::DataDamaged, 1)));
    assert!(matches!(world.store.probe(&id).await, Err(StoreError::Damaged(_))));
}

#[tokio::test]
async fn no_byte_of_a_manifest_can_change() {
    let world = World::new();
    let id = publish(&world).await;
    let path = world.object(&id, "manifest");
    for at in 0..len(&path) {
        flip(&path, at);
        let read = world.store.manifest(&id).await;
        assert!(matches!(read, Err(StoreError::Damaged(_))), "{at} of {}: {read:?}", len(&path));
        flip(&path, at);
    }
    let whole = fs::read(&path).expect("read");
    for end in 0..whole.len() {
        cut(&path, end as u64);
        assert!(matches!(world.store.manifest(&id).await, Err(StoreError::Damaged(_))), "cut to {end}");
        fs::write(&path, &whole).expect("written");
    }
    // An intact manifest of another deployment does not count as this one's.
    let other = publish(&world).await;
    fs::copy(world.object(&other, "manifest"), &path).expect("copied");
    assert_eq!(world.fault(&id).await, Some((FaultKind::ManifestDamaged, Vec::new())));
}

/// Returns the uploaded files by path, as a download reads them.
async fn uploaded(world: &World, id: &DeploymentId) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    let mut files = world.store.uploaded(id).await?;
    files.prefetch().await?;
    let mut read = BTreeMap::new();
    while let Some((path, len)) = files.next_file() {
        let mut body = Vec::new();
        while let Some(part) = files.part().await? {
            body.extend_from_slice(&part);
        }
        assert_eq!(body.len() as u64, len, "{path}");
        read.insert(path, body);
    }
    Ok(read)
}

#[tokio::test]
async fn packs_of_the_version_before_are_read_and_checked_by_what_they_have() {
    let world = World::new();
    let id = publish(&world).await;
    let mut manifest = world.store.manifest(&id).await.expect("a manifest");
    manifest.files.values_mut().for_each(|file| file.digests.clear());
    fs::write(world.object(&id, "manifest"), serde_json::to_vec(&manifest).expect("JSON")).expect("written");
    assert_eq!(world.store.manifest(&id).await.expect("read"), manifest);
    assert_eq!(world.fault(&id).await, None);
    let data = world.object(&id, "data");
    let whole = uploaded(&world, &id).await.expect("read");
    for (path, file) in manifest.stored_files() {
        let Span { offset, len } = file.identity;
        assert_eq!(whole[path], world.store.read(&id, offset, len).await.expect("read"), "{path}");
    }
    for (path, file) in &manifest.files {
        for (encoding, body) in file.bodies().filter(|(_, body)| body.span.len > 20) {
            let at = body.span.offset + body.span.len / 2;
            flip(&data, at);
            let read = uploaded(&world, &id).await;
            assert!(encoding.is_some() || matches!(read, Err(StoreError::Damaged(_))), "{path} {at}");
            assert_eq!(world.fault(&id).await, Some((FaultKind::DataDamaged, vec![path.clone()])), "{path} {at}");
            flip(&data, at);
        }
    }
}

/// The previous version reads the same fields of a manifest, without a seal.
#[tokio::test]
async fn the_version_before_reads_a_sealed_manifest() {
    let world = World::new();
    let id = publish(&world).await;
    let json = fs::read(world.object(&id, "manifest")).expect("read");
    let fields: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!((&fields["version"], &fields["sealed"]), (&1.into(), &true.into()));
    let manifest: Manifest = serde_json::from_slice(&json).expect("a manifest");
    assert_eq!(manifest, world.store.manifest(&id).await.expect("a manifest"));
}

#[tokio::test]
async fn random_faults_are_never_read_always_named_and_repaired_byte_for_byte() {
    let (world, replica) = (World::new(), World::new());
    let id = publish(&world).await;
    let pack = world.store.fetch(&id, &mut ReadPace::new(None)).await.expect("fetched");
    replica.store.put_copy(&id, pack).await.expect("copied");
    let right = objects(&world, &id);
    assert!(objects(&replica, &id) == right);
    let mut dice = SeededRandom(rounds());
    for round in 0..rounds() {
        let mut done = Vec::new();
        for _ in 0..=dice.roll(3) {
            let object = ["data", "manifest"][usize::try_from(dice.roll(2)).expect("small")];
            let path = world.object(&id, object);
            if !path.exists() || len(&path) == 0 {
                continue;
            }
            let at = dice.roll(len(&path));
            match dice.roll(6) {
                0 => fs::remove_file(&path).expect("removed"),
                1 => cut(&path, at),
                2 => {
                    // A sector of zeros.
                    let mut file = File::options().write(true).open(&path).expect("opened");
                    file.seek(SeekFrom::Start(at / 512 * 512)).expect("sought");
                    let zeros = 512.min(len(&path) - at / 512 * 512);
                    file.write_all(&vec![0; usize::try_from(zeros).expect("small")]).expect("written");
                }
                _ => flip(&path, at),
            }
            done.push((object, at));
        }
        let is_changed = ["data", "manifest"]
            .iter()
            .any(|object| fs::read(world.object(&id, object)).ok().as_ref() != right.get(object));
        assert_nothing_wrong_is_read(&world, &id).await;
        assert_eq!(world.fault(&id).await.is_some(), is_changed, "round {round}: {done:?}");
        let fetched = world.store.fetch(&id, &mut ReadPace::new(None)).await;
        assert_eq!(fetched.is_err(), is_changed, "round {round}: damage is never copied");
        if is_changed {
            let pack = replica.store.fetch(&id, &mut ReadPace::new(None)).await.expect("the replica has it");
            let now = world.now + std::time::Duration::from_secs(round);
            world.store.replace(&id, pack, now).await.expect("replaced");
            assert!(objects(&world, &id) == right, "round {round}");
            assert_eq!(world.fault(&id).await, None);
            let aside = world.folder.path().join("damaged").join(format!("{id}-{}", now.unix_seconds()));
            assert!(aside.is_dir(), "what was there is put aside");
        }
    }
}
