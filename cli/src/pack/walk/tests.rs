//! Tests of which files of a folder are published.

use std::fs;

use super::*;

fn site(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, body) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
    }
    dir
}

fn names(selection: &Selection) -> Vec<&str> {
    selection.entries.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn ignored_files_and_what_never_belongs_are_left_out() {
    let dir = site(&[
        ("index.html", "x"),
        ("a/b.css", "x"),
        ("a/draft.md", "x"),
        ("a/keep.md", "x"),
        (".well-known/security.txt", "x"),
        (".svcignore", "*.md\n!keep.md\n/private/\n"),
        ("private/x.html", "x"),
        ("a/private/y.html", "x"),
        (".gitignore", "index.html"),
        (".git/config", "x"),
        (".env", "x"),
        (".env.local", "x"),
        (".svc/up.json", "x"),
        ("node_modules/x/y.js", "x"),
        (".svcproject", "docs"),
        ("._index.html", "x"),
        ("a/._b.css", "x"),
        ("a/Icon\r", "x"),
        ("a/.DS_Store", "x"),
    ]);
    let selection = select(dir.path(), false).unwrap();
    assert_eq!(
        names(&selection),
        [".gitignore", ".well-known/security.txt", "a/b.css", "a/keep.md", "a/private/y.html", "index.html"]
    );
    let skipped: Vec<&str> = selection.skipped.keys().map(String::as_str).collect();
    assert_eq!(skipped, [".DS_Store", "._*", ".env", ".env.local", ".git", ".svc", "Icon\\r", "node_modules"]);
}

#[test]
fn secrets_are_left_out_unless_they_are_named() {
    let key = "-----BEGIN PRIVATE KEY-----\nMII\n";
    let files = [
        ("index.html", "x"),
        (".npmrc", "x"),
        (".ssh/config", "x"),
        (".env.example", "x"),
        ("a/.aws/credentials", "x"),
        ("a/id_rsa", "x"),
        ("a/id_card.png", "x"),
        ("tls/site.pem", key),
        ("tls/ca.pem", "-----BEGIN CERTIFICATE-----\n"),
        ("terraform.tfstate", "x"),
        ("THUMBS.DB", "x"),
    ];
    let dir = site(&files);
    let selection = select(dir.path(), false).unwrap();
    assert_eq!(names(&selection), [".env.example", "a/id_card.png", "index.html", "tls/ca.pem"]);
    let skipped: Vec<&str> = selection.skipped.keys().map(String::as_str).collect();
    assert_eq!(skipped, [".aws", ".npmrc", ".ssh", "THUMBS.DB", "id_rsa", "private key", "terraform.tfstate"]);

    let dir = site(&files);
    fs::write(dir.path().join(".svcignore"), "*.png\n!.npmrc\n!/tls/site.pem\n!*/\n!.*\n").unwrap();
    fs::write(dir.path().join("a/.svcignore"), "!id_rsa\n").unwrap();
    let selection = select(dir.path(), false).unwrap();
    assert_eq!(names(&selection), [".env.example", ".npmrc", "a/id_rsa", "index.html", "tls/ca.pem", "tls/site.pem"]);
}

#[test]
fn packages_that_a_site_consists_of_are_published() {
    let published = |files: &[(&str, &str)]| {
        let dir = site(files);
        let selection = select(dir.path(), false).unwrap();
        let names = names(&selection).into_iter().filter(|name| name.contains("node_modules")).map(str::to_owned);
        (names.collect::<Vec<_>>(), selection.skipped.contains_key("node_modules"), selection.warnings.len())
    };
    let none = Vec::<String>::new;
    // Expo. Nested folders are published too.
    let font = "assets/node_modules/a/node_modules/b/x.ttf";
    let expo = [("index.html", "x"), (font, "x"), ("assets/node_modules/a/package.json", "{}")];
    assert_eq!(
        published(&expo),
        (
            vec!["assets/node_modules/a/node_modules/b/x.ttf".into(), "assets/node_modules/a/package.json".into()],
            false,
            0
        )
    );
    // Vite with `preserveModules`, a page without a build, and a folder without any reference to it.
    let vite = [("index.html", "x"), ("index.js", "import './node_modules/a.js'"), ("node_modules/a.js", "x")];
    assert_eq!(published(&vite), (vec!["node_modules/a.js".into()], false, 0));
    let page = ("index.html", "<script src=/node_modules/a.js></script>");
    assert_eq!(published(&[page, vite[2]]), (vec!["node_modules/a.js".into()], false, 0));
    assert_eq!(published(&[vite[0], vite[2]]), (none(), true, 0));
    // Installed packages.
    let package = ("package.json", "{}");
    assert_eq!(published(&[vite[0], vite[1], vite[2], package]), (none(), true, 0));
    assert_eq!(published(&[page, vite[2], package]), (none(), true, 1));
    assert_eq!(published(&[vite[0], ("web/package.json", "{}"), ("web/node_modules/a.js", "x")]), (none(), true, 0));
    let line = (".svcignore", "!node_modules/\n");
    assert_eq!(published(&[page, vite[2], package, line]), (vec!["node_modules/a.js".into()], false, 0));
}

#[test]
fn a_single_page_becomes_index_html_and_another_file_is_what_the_root_answers() {
    let dir = site(&[
        ("page.HTML", "hello"),
        ("a b+\u{e9}.png", "x"),
        ("plain", "x"),
        ("report.pdf", "x"),
        ("site.TAR.gz", "x"),
    ]);
    let single = |name: &str| select(&dir.path().join(name), false).unwrap();
    let page = single("page.HTML");
    assert_eq!((names(&page), page.bytes, page.redirects.as_deref()), (vec!["index.html"], 5, None));
    for (name, rule) in [
        ("report.pdf", "/ /report.pdf 200\n"),
        ("plain", "/ /plain 200\n"),
        ("a b+\u{e9}.png", "/ /a%20b%2B%C3%A9.png 200\n"),
    ] {
        let selection = single(name);
        assert_eq!((names(&selection), selection.redirects.as_deref()), (vec![name], Some(rule)));
        assert!(selection.warnings.is_empty());
    }
    let archive = single("site.TAR.gz");
    assert_eq!(archive.archive, Some((dir.path().join("site.TAR.gz"), "application/gzip")));
    assert!(archive.entries.is_empty());
}

#[test]
fn a_private_file_is_refused_unless_it_is_asked_for() {
    let pem = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n";
    let dir =
        site(&[(".env", "x"), ("id_rsa", "x"), ("deploy_key", pem), ("key.html", pem), (".composer/auth.json", "{}")]);
    for name in [".env", "id_rsa", "deploy_key", ".composer/auth.json"] {
        let path = dir.path().join(name);
        let failure = crate::failure::from_error(&select(&path, false).unwrap_err());
        assert_eq!((failure.kind, &*failure.code), (FailureClass::Refused, "private_file"), "{name}");
        assert!(failure.hint.unwrap().contains("--anyway"));
        assert_eq!(select(&path, true).unwrap().entries.len(), 1, "{name}");
    }
    assert_eq!(names(&select(&dir.path().join("key.html"), false).unwrap()), ["index.html"]);
}

#[cfg(unix)]
#[test]
fn a_named_pipe_is_refused_and_not_waited_for() {
    let dir = site(&[]);
    let pipe = dir.path().join("fifo.html");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let failure = crate::failure::from_error(&select(&pipe, false).unwrap_err());
    assert_eq!(&*failure.code, "not_a_file");
}

#[cfg(unix)]
#[test]
fn symlinks_to_files_and_to_folders_inside_are_followed() {
    let dir = site(&[("site/v3/index.html", "three"), ("site/index.html", "x"), ("share/jquery.js", "jquery")]);
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, dir.path().join(at)).unwrap();
    link("v3", "site/latest");
    link("../share/jquery.js", "site/jquery.js");
    link("v3/index.html", "site/three.html");
    link("site", "named");
    let selection = select(&dir.path().join("named"), false).unwrap();
    let wanted = ["index.html", "jquery.js", "latest/index.html", "three.html", "v3/index.html"];
    assert_eq!(names(&selection), wanted);
    assert_eq!(selection.bytes, 1 + 6 + 3 * 5);
    assert!(selection.skipped.is_empty(), "{:?}", selection.skipped);
    let target = dir.path().canonicalize().unwrap().join("share/jquery.js");
    assert_eq!(selection.linked, [LinkedFile { name: "jquery.js".into(), target }]);
}

#[cfg(unix)]
#[test]
fn symlinks_that_lead_astray_are_left_out() {
    let dir = site(&[
        ("site/index.html", "x"),
        ("site/a/page.html", "a"),
        ("site/b/page.html", "b"),
        ("site/.env", "secret"),
        ("site/.well-known/x", "public"),
        ("elsewhere/page.html", "x"),
        (".ssh/key", "secret"),
    ]);
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, dir.path().join(at)).unwrap();
    link("../elsewhere", "site/elsewhere");
    link("/", "site/root");
    link("../.ssh/key", "site/key");
    link(".env", "site/settings");
    link("nowhere", "site/broken");
    link("loop", "site/loop");
    link("..", "site/a/up");
    link("../b", "site/a/b");
    link("../a", "site/b/a");
    link(".well-known/x", "site/x");
    let selection = select(&dir.path().join("site"), false).unwrap();
    assert_eq!(
        names(&selection),
        [".well-known/x", "a/b/page.html", "a/page.html", "b/a/page.html", "b/page.html", "index.html", "x"]
    );
    let describe = |(what, SkippedFiles { times, first })| (what, times, first.display().to_string());
    let skipped: Vec<_> = selection.skipped.into_iter().map(describe).collect();
    let skipped: Vec<(&str, u64, &str)> =
        skipped.iter().map(|(what, times, first)| (&**what, *times, &**first)).collect();
    assert_eq!(
        skipped,
        [
            (".env", 1, ".env"),
            ("broken symlink", 2, "broken"),
            ("symlink in a circle", 4, "a/b/a"),
            ("symlink to a folder elsewhere", 2, "elsewhere"),
            ("symlink to something hidden", 2, "key")
        ]
    );
    assert!(selection.linked.is_empty());
}

#[test]
fn an_empty_source_folder_points_to_the_build() {
    let dir = site(&[(".git/config", "x")]);
    let failure = crate::failure::from_error(&select(dir.path(), false).unwrap_err());
    assert_eq!(failure.code, "empty_folder");

    let dir = site(&[("package.json", "{}"), ("dist/index.html", "x"), (".svcignore", "*\n")]);
    let failure = crate::failure::from_error(&select(dir.path(), false).unwrap_err());
    assert!(failure.hint.unwrap().contains("dist"));
}

#[test]
fn a_file_over_the_limit_is_named() {
    let dir = site(&[("index.html", "x")]);
    fs::File::create(dir.path().join("film.mp4")).unwrap().set_len(limits::FILE_BYTES + 1).unwrap();
    let failure = crate::failure::from_error(&select(dir.path(), false).unwrap_err());
    assert_eq!(failure.kind, FailureClass::Limit);
    assert!(failure.message.contains("film.mp4"), "{}", failure.message);
}

#[test]
fn a_missing_path_is_a_mistake_of_usage() {
    let failure = crate::failure::from_error(&select(Path::new("/no/such/folder"), false).unwrap_err());
    assert_eq!(failure.kind, FailureClass::Usage);
}

#[cfg(unix)]
#[test]
fn a_backslash_in_a_name_is_refused_before_the_upload() {
    let dir = site(&[("index.html", "x"), ("a\\b", "x")]);
    assert_eq!(crate::failure::from_error(&select(dir.path(), false).unwrap_err()).code, "bad_file_name");
}
