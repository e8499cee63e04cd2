//! Names from real builds and real files.
//!
//! `builds.txt` lists the files of generated sites: `+` marks a referenced name with a hash, `-` any other. `files.txt`
//! lists names without hashes, from archives, cameras and packages.

use std::{collections::HashSet, io::Write as _};

use super::{
    names::{HashCandidate, HashPosition, HashStrength},
    *,
};
use crate::Span;

const BUILDS: &str = include_str!("../../tests/fixtures/builds.txt");
const FILES: &str = include_str!("../../tests/fixtures/files.txt");
/// Permitted number of undetected hashes per thousand.
const MISSED_PER_MILLE: usize = 5;

/// Returns the fingerprinted ones of `paths`, for a site with one script that refers to all of them.
fn fingerprinted<'p>(paths: &[&'p str]) -> HashSet<&'p str> {
    let mut data = tempfile::tempfile().expect("a file");
    let references = paths.join("\n");
    data.write_all(references.as_bytes()).expect("written");
    let script = SiteFile { path: "references.js", span: Span { offset: 0, len: references.len() as u64 } };
    let empty = Span { offset: references.len() as u64, len: 0 };
    let files = paths.iter().map(|path| SiteFile { path, span: empty }).chain([script]).collect();
    FingerprintFinder::new(files).decide(ContentVerifier::new(&data)).expect("read")
}

#[test]
fn hashes_in_the_names_of_real_builds_are_found_and_nothing_else() {
    let (mut hashed, mut others, mut missed, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for build in BUILDS.split("# ").skip(1) {
        let mut lines = build.lines().filter(|line| !line.is_empty());
        let name = lines.next().expect("a name");
        let names: Vec<(bool, &str)> =
            lines.map(|line| (line.starts_with('+'), line.get(2..).expect("a name after the mark"))).collect();
        let paths: Vec<&str> = names.iter().map(|(_, path)| *path).collect();
        let found = fingerprinted(&paths);
        for (is_hashed, path) in names {
            match (is_hashed, found.contains(path)) {
                (true, is_found) => {
                    hashed += 1;
                    if !is_found {
                        missed.push(format!("{name}: {path}"));
                    }
                }
                (false, is_found) => {
                    others += 1;
                    if is_found {
                        wrong.push(format!("{name}: {path}"));
                    }
                }
            }
        }
    }
    assert!(hashed >= 1_000 && others >= 250, "{hashed} {others}");
    assert_eq!(wrong, Vec::<String>::new());
    assert!(missed.len() * 1_000 <= hashed * MISSED_PER_MILLE, "{} of {hashed}: {missed:#?}", missed.len());
}

#[test]
fn names_of_real_files_are_not_taken_for_hashes_in_the_sites_of_generators() {
    let names: Vec<&str> = FILES.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(names.len() >= 1_000, "{}", names.len());
    // Next to the output of each generator, with its folder and forms.
    for (folder, beside) in [
        ("", &[][..]),
        ("assets", &["assets/index-BkX3d9aQ.js", "assets/index-C_7zZ-1a.css", "assets/vendor-t5CeUkWN.js"]),
        (
            "static/media",
            &["static/js/main.3f2a9c1b.js", "static/js/1.7e37652d.chunk.js", "static/css/main.4a95ea77.css"],
        ),
        ("js", &["js/chunk-5QRT2ZXK.js", "js/chunk-3R5AUIHD.js", "js/chunk-3ZM73QZE.js"]),
        ("img", &["app.3f2a9c1b4a95ea77.js", "3f2a9c1b.js", "4a95ea77.js", "app-365b1cacbdb00addcf0210f63f86955b.js"]),
    ] {
        let published: Vec<String> = names.iter().map(|name| format!("{folder}/{name}")).collect();
        let published: Vec<&str> = published.iter().map(|path| path.trim_start_matches('/')).collect();
        let paths: Vec<&str> = published.iter().copied().chain(beside.iter().copied()).collect();
        let found = fingerprinted(&paths);
        assert!(beside.iter().all(|path| found.contains(path)), "{folder}: {found:?}");
        let wrong: Vec<&&str> = published.iter().filter(|path| found.contains(**path)).collect();
        assert_eq!(wrong, Vec::<&&str>::new(), "in {folder}");
    }
}

/// Names given by people whose ends look like a hash.
const NAMED: [&str; 44] = [
    "icon-LinkedIn.svg",
    "chart-2024Q3v2.png",
    "flag-en_US_v2.svg",
    "hero-HD1920px.jpg",
    "product-B07XJ8C8.jpg",
    "phone-S24Ultra.jpg",
    "team-Johanna1.jpg",
    "sku-1234567a.jpg",
    "avatar.12345678.png",
    "trailer-4K_Wide1.mp4",
    "Episode-S01E02v3.mp3",
    "photo-Oct2024b.jpg",
    "plan-EG2_neu1.png",
    "IMG-4021_web.jpg",
    "scan-Seite_2a.png",
    "Cover-Band2neu.jpg",
    "menu-Karte2026.png",
    "menu-Winter26.png",
    "room-Suite12A.jpg",
    "room-101_Bad2.jpg",
    "poster-Nov28th1.jpg",
    "graph-Q4vsQ3v2.png",
    "logo-GmbH2024.svg",
    "logo-3DPrint1.svg",
    "car-BMWi4M50.jpg",
    "bike-R1250GS1.jpg",
    "watch-GT4_46mm.jpg",
    "tv-OLED55C4.jpg",
    "cpu-i9_13900.jpg",
    "gpu-RTX4090a.jpg",
    "chip-ESP32_S3.jpg",
    "board-Pi5_8GB1.jpg",
    "map-NYC_2ndA.png",
    "font-Inter_v4.woff2",
    "badge-WCAG2_AA.svg",
    "photo.a1b2c3d4.jpg",
    "part-4f3a2b1c.jpg",
    "logo-McDonald.svg",
    "icon-YouTubeX.svg",
    "icon-TikTok24.svg",
    "icon-GitHubV3.svg",
    "app-v2_0_1rc.js",
    "calendar-Week_47b.js",
    "print-A4_v2_1x.css",
];

#[test]
fn names_that_people_give_prove_nothing_beside_or_without_a_generators() {
    let vite = &["assets/index-B1x9Kq2Z.js", "assets/index-DiwrgTda.css"][..];
    let sorted = ["static/js/index-B1xWKq2Z.js", "static/js/chunk-BkX3dQaT.js", "static/css/index-DiwrgTda.css"];
    let react = ["static/js/main.8e2f5d1c.js", "static/css/main.e6c13ad2.css"];
    let picture = [vite, &["assets/react-CHdo91hT.svg"]].concat();
    for beside in [&[][..], vite, &picture, &sorted, &react] {
        for folder in ["img/", "images/", "", "static/", "a/assets-of-others/", "js/", "css/"] {
            // Tested together and one by one.
            let names: Vec<String> = NAMED.iter().map(|name| format!("{folder}{name}")).collect();
            let together = [names.iter().map(String::as_str).collect::<Vec<_>>()];
            let alone = names.iter().map(|name| vec![name.as_str()]);
            for names in together.into_iter().chain(alone) {
                let paths: Vec<&str> = names.iter().chain(beside).copied().collect();
                let found = fingerprinted(&paths);
                assert!(beside.iter().all(|path| found.contains(path)), "{found:?} beside {beside:?}");
                let wrong: Vec<&&str> = names.iter().filter(|path| found.contains(**path)).collect();
                assert_eq!(wrong, Vec::<&&str>::new(), "beside {beside:?}");
            }
        }
    }
    // Not even next to a picture with a hash.
    let paths = [vite, &["img/logo-Bk3xTQzw.svg", "img/icon-LinkedIn.svg", "img/chart-2024Q3v2.png"]].concat();
    assert!(fingerprinted(&paths).iter().all(|path| path.starts_with("assets/")));
}

#[test]
fn a_name_that_nothing_refers_to_proves_nothing() {
    let mut data = tempfile::tempfile().expect("a file");
    let page = b"<script src=assets/index-BkX3d9aQ.js></script>";
    let script = b"import './chunk-C_7zZ-1a.js'; //# sourceMappingURL=index-BkX3d9aQ.js.map index-Bt5CeUkW.js";
    data.write_all(page).and_then(|()| data.write_all(script)).expect("written");
    let (page, script) = (page.len() as u64, script.len() as u64);
    let files = [
        ("index.html", Span { offset: 0, len: page }),
        ("assets/index-BkX3d9aQ.js", Span { offset: page, len: script }),
        ("assets/index-BkX3d9aQ.js.map", Span { offset: 0, len: page }),
        ("assets/chunk-C_7zZ-1a.js", Span { offset: page, len: 0 }),
        // Only the hash of its own content counts.
        ("assets/index-Bt5CeUkW.css", Span { offset: page, len: script }),
        ("assets/old-DmDZ0-yr.js", Span { offset: page, len: 0 }),
        ("assets/old-DmDZ0-yr.js.map", Span { offset: page, len: 0 }),
    ];
    let files = files.into_iter().map(|(path, span)| SiteFile { path, span }).collect();
    let mut found: Vec<&str> =
        FingerprintFinder::new(files).decide(ContentVerifier::new(&data)).expect("read").into_iter().collect();
    found.sort_unstable();
    let referred = ["assets/chunk-C_7zZ-1a.js", "assets/index-BkX3d9aQ.js", "assets/index-BkX3d9aQ.js.map"];
    assert_eq!(found, referred, "a style that names itself is not among them");
}

#[test]
fn the_beginning_of_a_hash_of_the_content_is_one() {
    let mut data = tempfile::tempfile().expect("a file");
    let names = [
        "img/5d41402abc4b2a76b9719d911017c592.png",
        "photo-aaf4c61d.jpg",
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824.woff2",
        "img/205e460b479e2e5b48aec07710c08d50.png",
        "docs/5d41402abc4b2a76b9719d911017c592.pdf",
    ];
    let page = names.join(" ");
    data.write_all(b"hello").and_then(|()| data.write_all(page.as_bytes())).expect("written");
    let hello = Span { offset: 0, len: 5 };
    let page = SiteFile { path: "index.html", span: Span { offset: 5, len: page.len() as u64 } };
    let files = names.iter().map(|path| SiteFile { path, span: hello }).chain([page]).collect();
    let found = FingerprintFinder::new(files).decide(ContentVerifier::new(&data)).expect("read");
    assert_eq!(found, names[..3].iter().copied().collect());
}

#[test]
fn the_table_of_generators() {
    for (path, hash, place, strength) in [
        ("assets/index-BkX3d9aQ.js", "BkX3d9aQ", HashPosition::Dash, HashStrength::Strong),
        ("assets/codeMirrorModule--QdMvsKi.css", "-QdMvsKi", HashPosition::Dash, HashStrength::Strong),
        ("assets/guide_index.md.BkX3d9aQ.lean.js", "BkX3d9aQ", HashPosition::Dot, HashStrength::Strong),
        ("_app/immutable/chunks/BkX3d9aQ.js", "BkX3d9aQ", HashPosition::Whole, HashStrength::Strong),
        ("_app/immutable/entry/start.ee3f1196.js", "ee3f1196", HashPosition::Dot, HashStrength::Strong),
        ("_astro/hero.DlKzqp9V_Z1abCd.webp", "DlKzqp9V", HashPosition::Dot, HashStrength::Strong),
        ("_nuxt/3f2a9c1.js", "3f2a9c1", HashPosition::Whole, HashStrength::Strong),
        ("_next/static/css/04976b17264ffa53.css", "04976b17264ffa53", HashPosition::Whole, HashStrength::Strong),
        (
            "_next/static/media/07c7676b89ed2778-s.p.woff2",
            "07c7676b89ed2778",
            HashPosition::Whole,
            HashStrength::Strong,
        ),
        ("_next/static/chunks/turbopack-3l524wkd38i9n.js", "3l524wkd38i9n", HashPosition::Dash, HashStrength::Strong),
        (
            "_next/static/ZhMFnleSiLMOj1jOKdhqS/_buildManifest.js",
            "ZhMFnleSiLMOj1jOKdhqS",
            HashPosition::Whole,
            HashStrength::Strong,
        ),
        ("static/js/main.abcdef12.chunk.js", "abcdef12", HashPosition::Dot, HashStrength::Weak),
        ("static/media/logo.c654bf0a4dcb4117785d.png", "c654bf0a4dcb4117785d", HashPosition::Dot, HashStrength::Strong),
        ("151cfcfa1bd74779aadb.png", "151cfcfa1bd74779aadb", HashPosition::Whole, HashStrength::Strong),
        ("assets/js/runtime~main.3f2a9c1b.js", "3f2a9c1b", HashPosition::Dot, HashStrength::Strong),
        (
            "assets/images/logo-0ab54153eeeca0ce03978cc463b257f7.png",
            "0ab54153eeeca0ce03978cc463b257f7",
            HashPosition::Dash,
            HashStrength::Strong,
        ),
        ("index.3f2a9c1b.css", "3f2a9c1b", HashPosition::Dot, HashStrength::Strong),
        ("chunk-5QRT2ZXK.js", "5QRT2ZXK", HashPosition::Dash, HashStrength::Strong),
        (
            "_expo/static/js/web/entry-365b1cacbdb00addcf0210f63f86955b.js",
            "365b1cacbdb00addcf0210f63f86955b",
            HashPosition::Dash,
            HashStrength::Strong,
        ),
        (
            "assets/logo.365b1cacbdb00addcf0210f63f86955b@2x.png",
            "365b1cacbdb00addcf0210f63f86955b",
            HashPosition::Dot,
            HashStrength::Strong,
        ),
        ("app-0884a5c2d1d2d99b_bg.wasm", "0884a5c2d1d2d99b", HashPosition::Dash, HashStrength::Strong),
        ("css/base.27e20196a850.css", "27e20196a850", HashPosition::Dot, HashStrength::Strong),
        ("_framework/System.Runtime.a1b2c3d4zz.wasm", "a1b2c3d4zz", HashPosition::Dot, HashStrength::Strong),
        ("js/main.7e37652d.min.js", "7e37652d", HashPosition::Dot, HashStrength::Strong),
        (
            "Build/0ab54153eeeca0ce03978cc463b257f7.wasm.br",
            "0ab54153eeeca0ce03978cc463b257f7",
            HashPosition::Whole,
            HashStrength::Strong,
        ),
        ("assets/inter-SemiBold.woff2", "SemiBold", HashPosition::Dash, HashStrength::Written),
        ("cafe2024.jpg", "cafe2024", HashPosition::Whole, HashStrength::Written),
    ] {
        let found = HashCandidate::find(path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!((found.hash, found.place, found.strength), (hash, place, strength), "{path}");
    }
}

#[test]
fn what_has_no_place_for_a_hash_or_is_a_document() {
    for path in [
        "index.html",
        "app.3f2a9c1b.html",
        "docs/a1234567.pdf",
        "data.3f2a9c1b.json",
        "app.3f2a9c1b.zip",
        "feed.3f2a9c1b.xml",
        "main.3f2a9c1b.js.LICENSE.txt",
        "jquery-3.7.1.min.js",
        "sw.js",
        "app.3f2a9.js",
        "main.dart.js",
        "3f2a9c1b",
        "3f2a9c1b-1234-4abc-8def-0123456789ab.png",
        "u/photo-3f2a9c1b-1234-4abc-8def-0123456789ab.png",
        "dQw4w9WgXcQ.jpg",
        "flutter_bootstrap.js",
        "canvaskit/canvaskit.wasm",
        "_next/static/build/_buildManifest.js",
    ] {
        assert!(HashCandidate::find(path).is_none(), "{path}: {:?}", HashCandidate::find(path));
    }
}
