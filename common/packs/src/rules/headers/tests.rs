//! Lines of `_headers` with the resulting rules and warnings.

use super::*;

/// Returns the rules and the warnings.
fn compile(file: &[u8]) -> (Vec<HeaderRule>, Vec<String>) {
    let compiled = super::compile(file);
    (compiled.rules, compiled.warnings)
}

#[test]
fn rules_are_compiled() {
    let (rules, warnings) = compile(
        b"# all\n/*\n  X-Frame-Options: DENY\n  ! X-Powered\n\n/static/:file\n  Access-Control-Allow-Origin: *\n  \
          Link: </a.css>; rel=preload\n  Link: </b.css>; rel=preload\nhttps://a.test/*\n X-Robots-Tag: noindex\n",
    );
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(rules.len(), 3);
    assert_eq!(rules[0].set, [("x-frame-options".to_owned(), "DENY".to_owned())]);
    assert_eq!(rules[0].unset, ["x-powered"]);
    assert_eq!(rules[1].set[1].1, "</a.css>; rel=preload, </b.css>; rel=preload");
    assert_eq!(rules[2].pattern.host.as_deref(), Some("a.test"));
}

#[test]
fn wrong_lines_become_warnings_and_the_rest_stays() {
    for (file, wanted) in [
        ("X-A: b\n/*\n X-B: c", "_headers line 1: a header needs a path above it"),
        ("/*\n X-B: c\n nonsense", "_headers line 3: a header has the form `Name: value`"),
        ("/*\n X-B: c\n Content-Length: 3", "_headers line 3: `Content-Length` is set by the service"),
        ("/*\n X-B: c\n transfer-encoding: x", "_headers line 3: `transfer-encoding` is set by the service"),
        ("/*\n X-B: c\n Server: x", "_headers line 3: `Server` is set by the service"),
        ("/*\n X-B: c\n ! Set-Cookie", "_headers line 3: `Set-Cookie` is set by the service"),
        ("/*\n X-B: c\n Clear-Site-Data: \"cookies\"", "_headers line 3: `Clear-Site-Data` reaches beyond this site"),
        ("/*\n X-B: c\n X A: b", "_headers line 3: `X A` is not a header's name"),
        ("/*\n X-B: c\n X-A:", "_headers line 3: `x-a` has no value; `! x-a` takes a header away"),
        ("/*\n X-B: c\n/empty", "_headers line 3: no header follows this path"),
        ("/*\n X-B: c\n/a/*/*\n X-A: b", "_headers line 3: only one * is allowed"),
        ("/*\n X-B: c\n X-A: a\x01b", "_headers line 3: the value of `x-a` holds characters that headers may not hold"),
    ] {
        let (rules, warnings) = compile(file.as_bytes());
        assert_eq!(warnings, [wanted], "{file}");
        assert_eq!(rules.len(), 1, "{file}");
        assert_eq!(rules[0].set, [("x-b".to_owned(), "c".to_owned())], "{file}");
    }
}

#[test]
fn a_misspelt_guard_is_not_sent() {
    for name in ["BasicAuth", "Basic_Auth", "basic auth", "Basic.Auth", "BASIC-AUTHENTICATION", "Authorization"] {
        let compiled = super::compile(format!("/a/*\n X-B: c\n {name}: ann:open-sesame\n").as_bytes());
        assert_eq!(compiled.rules[0].set, [("x-b".to_owned(), "c".to_owned())], "{name}");
        assert_eq!(compiled.warnings, [format!("_headers line 3: {MISSPELT_AUTH}")], "{name}");
        assert!(compiled.access.guards.is_empty());
        let orphan = super::compile(format!("{name}: ann:open-sesame\n").as_bytes());
        assert_eq!(orphan.warnings, [format!("_headers line 1: {MISSPELT_AUTH}")], "{name}");
    }
    let (rules, warnings) = compile(b"/*\n X-Basic-Auth-Realm: a\n");
    assert_eq!((rules.len(), warnings.len()), (1, 0));
}

#[test]
fn lines_in_latin_1_are_left_out_and_named() {
    let text = b"/a\n X-A: b\n X-B: caf\xe9\n/caf\xe9/*\n X-C: d\n Basic-Auth: a:open-sesame\n/b\n Basic-Auth: a:s\xe9same\n# \xe9\n";
    let compiled = super::compile(text);
    assert_eq!(compiled.rules.len(), 1);
    assert_eq!(compiled.rules[0].set, [("x-a".to_owned(), "b".to_owned())], "nothing of the path that was left out");
    let lines: Vec<&str> =
        compiled.warnings.iter().filter(|said| said.ends_with(NOT_UTF8)).map(|said| &said[..15]).collect();
    assert_eq!(lines, ["_headers line 3", "_headers line 4", "_headers line 8"]);
    assert_eq!(compiled.access.guards.len(), 1, "what cannot be read shuts its path");
    let (rules, warnings) = super::super::redirects::compile(b"/caf\xe9 /b\n/c /d\n", |_| false);
    assert_eq!((rules.len(), warnings), (1, vec![format!("_redirects line 1: {NOT_UTF8}")]));
}

#[test]
fn what_the_service_does_already_is_no_mistake() {
    let (rules, warnings) = compile(b"/*\n X-Content-Type-Options: NoSniff\n/b/*.br\n Content-Encoding: br\n");
    assert_eq!((rules.len(), &rules[0].set[..]), (1, &[("content-encoding".to_owned(), "br".to_owned())][..]));
    assert_eq!(warnings, Vec::<String>::new());
    let (rules, warnings) = compile(b"/*\n X-Content-Type-Options: none\n/b\n Content-Encoding: identity\n/c\n");
    let said = ["2: `X-Content-Type-Options` is set by the service", "4: `Content-Encoding` is br, gzip or zstd"]
        .map(|said| format!("_headers line {said}"));
    assert_eq!((rules.len(), &warnings[..2]), (0, &said[..]), "one word for each");
    assert_eq!(warnings[2..], ["_headers line 5: no header follows this path"]);
}

#[test]
fn the_bounds_hold() {
    let many = "/a\n X-A: b\n".repeat(RULES + 3);
    let (rules, warnings) = compile(many.as_bytes());
    assert_eq!(rules.len(), RULES);
    assert_eq!(warnings, ["_headers line 201: only the first 100 rules count; this one and all below are left out"]);
    let (_, warnings) = compile(format!("/a\n X-A: {}", "b".repeat(2_000)).as_bytes());
    assert_eq!(
        warnings,
        ["_headers line 1: no header follows this path", "_headers line 2: longer than 2000 characters"],
        "in the order of the lines, whichever was noticed first"
    );
    let (_, warnings) = compile("nonsense:\n".repeat(10_000).as_bytes());
    assert_eq!(warnings.len(), 1);
    let (_, warnings) = compile("/*/*\n".repeat(10_000).as_bytes());
    assert_eq!(warnings.last().map(String::as_str), Some("_headers: 9950 more lines were left out"));
    assert_eq!(compile(b"\xff\xfe/\x00").1.len(), 1, "in UTF-16");
    let wide: Vec<String> = (0..FIELDS + 2).map(|n| format!(" X-{n}: b\n")).collect();
    let wide = wide.concat();
    let (rules, warnings) = compile(format!("/a\n{wide} ! X-Away\n X-0: again\n").as_bytes());
    assert_eq!((rules[0].set.len(), rules[0].unset.len()), (FIELDS, 0));
    assert_eq!(rules[0].set[0].1, "b, again", "a header that is there already takes no room");
    assert_eq!(warnings.len(), 3);
    assert_eq!(warnings[0], "_headers line 22: only the first 20 headers of a rule count");
    let (rules, warnings) = compile(format!("/a\n X-A: {0}\n X-A: {0}\n", "b".repeat(1_100)).as_bytes());
    assert_eq!(rules[0].set[0].1.len(), 1_100);
    assert_eq!(warnings, ["_headers line 3: the values of `x-a` have more than 2 KB together"]);
}

#[test]
fn a_file_counts_up_to_its_bound_in_whole_lines() {
    let line = format!(" X-A: {}\n", "b".repeat(1_016));
    let file = format!("/a\n X-B: c\n/b\n{}", line.repeat(200));
    let (rules, warnings) = compile(file.as_bytes());
    assert_eq!(rules.len(), 2);
    assert_eq!(warnings[0], "_headers: only the first 100 KB count; the lines after them were left out");
    assert_eq!(warnings.len(), 51, "99 lines counted, one of them fitted: {warnings:?}");
    let file = format!("{}/b\n X-B: c", "# all is well\n".repeat(7_313));
    assert!(file.len() < RULES_BYTES && compile(file.as_bytes()).1.is_empty());
}

#[test]
fn a_stored_pack_of_more_rules_is_cut_to_the_bounds() {
    let rule = |set: usize, bytes: usize| HeaderRule {
        pattern: PathPattern::parse("/*").expect("valid"),
        set: (0..set).map(|n| (format!("x-{n}"), "b".repeat(bytes))).collect(),
        unset: vec!["x-away".into(); 30],
    };
    let cut = within_bounds(vec![rule(5, 10); 300]);
    assert_eq!((cut.len(), cut[0].set.len(), cut[0].unset.len()), (RULES, 5, FIELDS - 5));
    assert!(within_bounds(vec![rule(15, 2_000); 300]).len() < 4);
    assert!(within_bounds(vec![rule(3, 3_000)])[0].set.is_empty());
    let reaching = HeaderRule {
        pattern: PathPattern::parse("/*").expect("valid"),
        set: vec![("Clear-Site-Data".into(), "\"cookies\"".into()), ("x-fine".into(), "1".into())],
        unset: vec!["ETag".into()],
    };
    let cut = within_bounds(vec![reaching]);
    assert_eq!(cut[0].set, [("x-fine".to_owned(), "1".to_owned())]);
    assert!(cut[0].unset.is_empty());
}

#[test]
fn what_reaches_beyond_a_site_is_not_the_sites_to_say() {
    for name in [
        "set-cookie",
        "server",
        "x-svc-edge",
        "proxy-status",
        "clear-site-data",
        "alt-svc",
        "nel",
        "public-key-pins",
        "x-accel-redirect",
        "x-accel-expires",
        "x-sendfile",
        "x-sendfile2",
        "x-lighttpd-send-file",
        "x-litespeed-location",
        "x-reproxy-url",
        "x-envoy-immediate-health-check-fail",
        "cdn-cache-control",
        "cloudflare-cdn-cache-control",
        "netlify-cdn-cache-control",
        "surrogate-control",
        "surrogate-key",
        "edge-control",
    ] {
        assert!(rejection_reason(name).is_some(), "{name}");
    }
    for name in [
        "cache-control",
        "expires",
        "pragma",
        "strict-transport-security",
        "service-worker-allowed",
        "report-to",
        "content-security-policy",
        "access-control-allow-origin",
        "link",
        "x-frame-options",
    ] {
        assert_eq!(rejection_reason(name), None, "{name}");
    }
}
