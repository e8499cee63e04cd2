use config::{Gateway, models::Models};
use proptest::prelude::*;

use super::*;
use crate::gateway::catalog::Catalog;

fn frames() -> Frames {
    let config = Gateway { provider_url: Some("http://127.0.0.1:9".parse().unwrap()), ..Gateway::default() };
    let models = Models::of(&config, |_| None).unwrap();
    let catalog = Catalog::new(&models, &config).unwrap();
    Frames::new(catalog.find("svc/qwen3-32b").unwrap().clone(), 7, 4096)
}

/// What comes out of these pieces, how it ended, and what was used.
fn pass<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (String, Result<(), BadStream>, (u64, u64, bool)) {
    let (mut frames, mut out) = (frames(), BytesMut::new());
    let mut end = None;
    for piece in pieces {
        match frames.take(piece, &mut out) {
            Ok(Progress::Going) => {}
            Ok(Progress::Done) => end = Some(Ok(())),
            Err(bad) => end = Some(Err(bad)),
        }
        if end.is_some() {
            break;
        }
    }
    let end = end.unwrap_or_else(|| frames.end(&mut out));
    let Usage { prompt, completion, estimated } = frames.usage();
    (String::from_utf8(out.to_vec()).unwrap(), end, (prompt, completion, estimated))
}

const WORD: &str = r#"data: {"id":"c1","object":"chat.completion.chunk","created":5,"model":"Qwen3-32B","choices":[{"index":0,"delta":{"content":"\"model\":\"x\""},"finish_reason":null}],"usage":null}"#;
const STOP: &str =
    r#"data: {"id":"c1","model": "Qwen3-32B" ,"choices":[{"index":0,"delta":{},"finish_reason": "stop"}]}"#;
const USAGE: &str = r#"data: {"id":"c1","model":"Qwen3-32B","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#;
const DONE_LINE: &str = "data: [DONE]";
const USED: (u64, u64, bool) = (3, 2, false);

fn stream<'t>(events: &[&'t str], end: &'t str) -> String {
    events.iter().flat_map(|event| [*event, end, end]).collect()
}

fn ours(text: &str) -> String {
    text.replace("\"Qwen3-32B\"", "\"svc/qwen3-32b\"")
}

#[test]
fn frames_pass_as_they_are_under_our_name_of_the_model() {
    let text = stream(&[": keep-alive", WORD, STOP, USAGE, DONE_LINE], "\n");
    assert_eq!(pass([text.as_bytes()]), (ours(&text), Ok(()), USED));
}

#[test]
fn usage_is_found_where_it_stands_and_never_summed() {
    let with = |frame: &str, tokens: u64| {
        let usage = format!(r#","usage":{{"prompt_tokens":3,"completion_tokens":{tokens},"total_tokens":0}}}}"#);
        frame.replace(r#","usage":null}"#, "}").strip_suffix('}').unwrap().to_owned() + &usage
    };
    let (in_word, in_stop) = (with(WORD, 1), with(STOP, 2));
    for events in [vec![WORD, &in_stop, DONE_LINE], vec![&in_word, &in_word, &in_stop, DONE_LINE]] {
        let text = stream(&events, "\n");
        assert_eq!(pass([text.as_bytes()]), (ours(&text), Ok(()), USED));
    }
}

#[test]
fn a_stream_without_usage_gets_an_estimate_that_says_so() {
    let text = stream(&[WORD, WORD, STOP, DONE_LINE], "\n");
    let (out, end, (prompt, completion, estimated)) = pass([text.as_bytes()]);
    assert_eq!(end, Ok(()));
    assert!(estimated && prompt == 7 && completion >= 3, "{completion}");
    let last = out.trim_end().rsplit("\n\n").nth(1).unwrap();
    let last: serde_json::Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(last["usage"]["total_tokens"], 7 + completion);
    assert_eq!(last["usage"]["estimated"], true);
    assert_eq!((&last["id"], &last["created"], &last["model"]), (&"c1".into(), &5.into(), &"svc/qwen3-32b".into()));
    assert!(out.ends_with("data: [DONE]\n\n"));
}

#[test]
fn the_last_frame_has_the_usage_even_when_it_came_earlier() {
    let text = stream(&[WORD, USAGE, STOP, DONE_LINE], "\n");
    let (out, _, usage) = pass([text.as_bytes()]);
    assert_eq!(usage, USED);
    assert!(out.trim_end().rsplit("\n\n").nth(1).unwrap().contains(r#""prompt_tokens":3"#), "{out}");
}

#[test]
fn unbelievable_usage_is_none() {
    for usage in [
        "7",
        "{}",
        r#"{"prompt_tokens":-1,"completion_tokens":1}"#,
        r#"{"prompt_tokens":1,"completion_tokens":99999999999}"#,
    ] {
        assert!(reported(usage.as_bytes()).is_none(), "{usage}");
    }
    let usage = reported(br#"{"prompt_tokens":4,"total_tokens":9}"#).unwrap();
    assert_eq!((usage.prompt, usage.completion), (4, 5));
}

#[test]
fn an_end_that_was_not_said_is_none() {
    for events in [&[][..], &[WORD], &[WORD, STOP], &[": bye"]] {
        assert_eq!(pass([stream(events, "\n").as_bytes()]).1, Err(BadStream::CutOff), "{events:?}");
    }
    // After the usage nothing can follow but the end.
    let text = stream(&[WORD, STOP, USAGE], "\n");
    assert_eq!(pass([text.as_bytes()]), (ours(&text) + "data: [DONE]\n\n", Ok(()), USED));
    // The last event may lack its empty line.
    let text = stream(&[WORD, STOP, USAGE], "\n") + DONE_LINE;
    assert_eq!(pass([text.as_bytes()]).0, ours(&text) + "\n\n");
}

#[test]
fn an_error_is_none_of_the_clients_frames() {
    for error in [
        r#"data: {"error":{"message":"secret words"}}"#,
        r#"data: {"model":"Qwen3-32B","error":"secret words"}"#,
        r#"data: {"object":"error","message":"secret words"}"#,
        "event: error\ndata: {\"message\":\"secret words\"}",
    ] {
        let (out, end, _) = pass([stream(&[WORD, error, DONE_LINE], "\n").as_bytes()]);
        assert_eq!((out, end), (ours(&stream(&[WORD], "\n")), Err(BadStream::Error)));
    }
    let (out, end, _) = pass([stream(&[WORD, "data: secret words"], "\n").as_bytes()]);
    assert_eq!((out, end), (ours(&stream(&[WORD], "\n")), Err(BadStream::Garbled)));
    assert_eq!(pass([stream(&[r#"data: {"error":null,"choices":[]}"#, DONE_LINE], "\n").as_bytes()]).1, Ok(()));
}

#[test]
fn a_frame_of_several_lines_is_one() {
    let text = "data: {\"model\":\ndata: \"Qwen3-32B\",\ndata:\"choices\":[]}\n\ndata: [DONE]\n\n";
    let (out, end, _) = pass([text.as_bytes()]);
    assert_eq!(end, Ok(()));
    assert!(out.starts_with("data: {\"model\": \"svc/qwen3-32b\", \"choices\":[]}\n\n"), "{out}");
}

#[test]
fn a_frame_without_end_is_given_up() {
    let piece = [b'x'; 10_000];
    let pieces = std::iter::once(&b"data: "[..]).chain(std::iter::repeat_n(&piece[..], 200));
    assert_eq!(pass(pieces).1, Err(BadStream::TooLarge));
}

proptest! {
    #[test]
    fn no_cut_and_no_line_end_makes_a_difference(
        cuts in prop::collection::vec(1..40_usize, 1..200),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let text = stream(&[": hm", WORD, WORD, STOP, USAGE, DONE_LINE], end) + "data: {}\n\n";
        let mut rest = text.as_bytes();
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        let (out, ended, usage) = pass(pieces);
        prop_assert_eq!(ended, Ok(()));
        prop_assert_eq!(usage, USED);
        let expected = ours(&stream(&[": hm", WORD, WORD, STOP, USAGE], end));
        prop_assert_eq!(out, expected + "data: [DONE]\n\n");
    }

    #[test]
    fn any_bytes_are_survived(pieces: Vec<Vec<u8>>) {
        let (mut frames, mut out) = (frames(), BytesMut::new());
        for piece in &pieces {
            if frames.take(piece, &mut out) != Ok(Progress::Going) {
                break;
            }
        }
        let _ = frames.end(&mut out);
    }
}
