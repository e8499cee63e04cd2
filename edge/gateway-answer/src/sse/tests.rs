use config::{
    Gateway,
    models::{MAX_TOKENS, ModelCatalog},
};
use gateway_checks::WireChecks;
use gateway_request::{error::RequestComplaint, models::ServedModels};

use super::*;

/// Relays the answer to a request for `choices` choices.
fn relay_choices<'p>(choices: u64, pieces: impl IntoIterator<Item = &'p [u8]>) -> RelayedStream {
    let config = Gateway::default();
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    let expected = ExpectedUsage { prompt: 7, completion: MAX_TOKENS, choices, images: 0 };
    ChatFrames::new(models.find("svc/qwen3-32b").unwrap().clone(), expected).relay(pieces)
}

/// Returns the output, how the stream ended, and its usage: prompt, completion, and whether it is estimated.
fn relay<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (String, Result<(), StreamError>, (u64, u64, bool)) {
    let relayed = relay_choices(1, pieces);
    let TokenUsage { prompt, completion, is_estimated, .. } = relayed.usage;
    (String::from_utf8(relayed.out).unwrap(), relayed.end, (prompt, completion, is_estimated))
}

const WORD: &str = r#"data: {"id":"c1","object":"chat.completion.chunk","created":5,"model":"Qwen3-32B","choices":[{"index":0,"delta":{"content":"\"model\":\"x\""},"finish_reason":null}],"usage":null}"#;
const STOP: &str =
    r#"data: {"id":"c1","model": "Qwen3-32B" ,"choices":[{"index":0,"delta":{},"finish_reason": "stop"}]}"#;
const USAGE: &str = r#"data: {"id":"c1","model":"Qwen3-32B","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#;
const DONE_LINE: &str = "data: [DONE]";
const USAGE_OF_FRAME: (u64, u64, bool) = (3, 2, false);

fn stream<'t>(events: &[&'t str], end: &'t str) -> String {
    events.iter().flat_map(|event| [*event, end, end]).collect()
}

/// Returns the stream for the client: with the gateway's name of the model, and the cost in the usage of [`USAGE`].
fn renamed(text: &str) -> String {
    let renamed = text.replace("\"Qwen3-32B\"", "\"svc/qwen3-32b\"");
    renamed.replace("\"total_tokens\":5}", "\"total_tokens\":5,\"cost_microeuros\":2}")
}

#[test]
fn frames_pass_unchanged_except_for_the_models_name() {
    let text = stream(&[": keep-alive", WORD, STOP, USAGE, DONE_LINE], "\n");
    assert_eq!(relay([text.as_bytes()]), (renamed(&text), Ok(()), USAGE_OF_FRAME));
}

/// Each of these makes some client report an event that does not exist, and fail.
#[test]
fn events_without_data_do_not_reach_the_client() {
    let text = stream(&[WORD, STOP, USAGE, DONE_LINE], "\n");
    for end in ["\n", "\r\n", "\r"] {
        for odd in [
            "data:",
            "data: ",
            "data:  \t",
            "data",
            "retry: 3000",
            "id: 7",
            "id",
            "event: ping",
            "id: 7\nevent: ping\nretry: 1",
            "data:\ndata: ",
            "",
        ] {
            let odd = format!("{odd}\n\n").replace('\n', end);
            let (first, rest) = text.split_at(text.find("\n\n").unwrap() + 2);
            for with in [format!("{odd}{text}"), format!("{first}{odd}{odd}{rest}")] {
                assert_eq!(relay([with.as_bytes()]), (renamed(&text), Ok(()), USAGE_OF_FRAME), "{with:?}");
                assert_eq!(relay(with.as_bytes().chunks(1)), (renamed(&text), Ok(()), USAGE_OF_FRAME), "{with:?}");
            }
        }
        // Next to data or a comment, only that line is removed.
        for (line, passes) in [
            (format!("id: 7\nretry: 1\n{WORD}\ndata:\n\n"), format!("{WORD}\n\n")),
            (format!(": hm\ndata: \nevent: message\n{WORD}\nid\n\n"), format!(": hm\nevent: message\n{WORD}\n\n")),
            (": one\nid: 7\n:\nevent: ping\n\n".to_owned(), ": one\n:\n\n".to_owned()),
        ] {
            let with = format!("{}{}", line.replace('\n', end), text);
            assert_eq!(relay([with.as_bytes()]).0, renamed(&(passes + &text)), "{with:?}");
        }
    }
}

#[test]
fn the_latest_usage_counts_and_is_never_summed() {
    let with = |frame: &str, tokens: u64| {
        let total = 3 + tokens;
        let usage = format!(r#","usage":{{"prompt_tokens":3,"completion_tokens":{tokens},"total_tokens":{total}}}}}"#);
        frame.replace(r#","usage":null}"#, "}").strip_suffix('}').unwrap().to_owned() + &usage
    };
    let (in_word, in_stop) = (with(WORD, 1), with(STOP, 2));
    for events in [vec![WORD, &in_stop, DONE_LINE], vec![&in_word, &in_word, &in_stop, DONE_LINE]] {
        let text = stream(&events, "\n");
        assert_eq!(relay([text.as_bytes()]), (renamed(&text), Ok(()), USAGE_OF_FRAME));
    }
}

#[test]
fn a_stream_without_usage_gets_a_marked_estimate() {
    let text = stream(&[WORD, WORD, STOP, DONE_LINE], "\n");
    let (out, end, (prompt, completion, estimated)) = relay([text.as_bytes()]);
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
fn usage_that_came_earlier_is_repeated_in_the_last_frame() {
    let text = stream(&[WORD, USAGE, STOP, DONE_LINE], "\n");
    let (out, _, usage) = relay([text.as_bytes()]);
    assert_eq!(usage, USAGE_OF_FRAME);
    assert!(out.trim_end().rsplit("\n\n").nth(1).unwrap().contains(r#""prompt_tokens":3"#), "{out}");
}

#[test]
fn a_stream_without_its_last_frame_is_cut_off() {
    for events in [&[][..], &[WORD], &[WORD, STOP], &[": bye"]] {
        assert_eq!(relay([stream(events, "\n").as_bytes()]).1, Err(StreamError::CutOff), "{events:?}");
    }
    // Only the end can follow the usage.
    let text = stream(&[WORD, STOP, USAGE], "\n");
    assert_eq!(relay([text.as_bytes()]), (renamed(&text) + "data: [DONE]\n\n", Ok(()), USAGE_OF_FRAME));
    // Usage that the same frame retracts is repeated.
    let twice = USAGE.replace("5}}", r#"5},"usage":null}"#);
    let (out, end, usage) = relay([stream(&[WORD, STOP, &twice], "\n").as_bytes()]);
    assert_eq!((end, usage), (Ok(()), USAGE_OF_FRAME));
    assert!(out.ends_with("\"total_tokens\":5,\"cost_microeuros\":2}}\n\ndata: [DONE]\n\n"), "{out}");
    // The last event may lack its empty line.
    let text = stream(&[WORD, STOP, USAGE], "\n") + DONE_LINE;
    assert_eq!(relay([text.as_bytes()]).0, renamed(&text) + "\n\n");
}

#[test]
fn a_providers_error_does_not_reach_the_client() {
    for error in [
        r#"data: {"error":{"message":"secret words"}}"#,
        r#"data: {"model":"Qwen3-32B","error":"secret words"}"#,
        r#"data: {"object":"error","message":"secret words"}"#,
        r#"data: {"object":"\u0065rror","message":"secret words"}"#,
        "event: error\ndata: {\"message\":\"secret words\"}",
    ] {
        let (out, end, _) = relay([stream(&[WORD, error, DONE_LINE], "\n").as_bytes()]);
        assert_eq!((out, end), (renamed(&stream(&[WORD], "\n")), Err(StreamError::Reported(ErrorReport::NONE))));
    }
    let (out, end, _) = relay([stream(&[WORD, "data: secret words"], "\n").as_bytes()]);
    assert_eq!((out, end), (renamed(&stream(&[WORD], "\n")), Err(StreamError::InvalidJson)));
    assert_eq!(relay([stream(&[r#"data: {"error":null,"choices":[{}]}"#, DONE_LINE], "\n").as_bytes()]).1, Ok(()));
}

#[test]
fn what_is_no_part_of_a_completion_does_not_pass() {
    let rest = [STOP, USAGE, DONE_LINE];
    let expected = renamed(&stream(&[&[WORD], &rest[..]].concat(), "\n"));
    for line in [
        r#"data: {"detail":"secret words"}"#,
        r#"data: {"code":"429","message":"secret words"}"#,
        r#"data: {"choices":"secret words"}"#,
        r#"data: {"choices":null,"usage":"secret words"}"#,
        "id: 7\nevent: message\ndata: {\ndata: }",
        "data: {}",
    ] {
        let text = stream(&[&[WORD, line], &rest[..]].concat(), "\n");
        assert_eq!(relay([text.as_bytes()]), (expected.clone(), Ok(()), USAGE_OF_FRAME), "{line}");
        // There is no content, whatever precedes the end.
        let (out, end, _) = relay([stream(&[line, DONE_LINE], "\n").as_bytes()]);
        assert_eq!((out.as_str(), end), ("", Err(StreamError::NoAnswer)), "{line}");
    }
    assert_eq!(relay([stream(&[DONE_LINE], "\n").as_bytes()]).1, Err(StreamError::NoAnswer));
    // Usage without choices ends a completion.
    for choices in ["", r#","choices":null"#] {
        let usage = USAGE.replace(r#","choices":[]"#, choices);
        let (out, end, used) = relay([stream(&[WORD, STOP, &usage], "\n").as_bytes()]);
        assert_eq!((end, used), (Ok(()), USAGE_OF_FRAME));
        assert_eq!(out, renamed(&stream(&[WORD, STOP, &usage, DONE_LINE], "\n")));
    }
}

#[test]
fn only_what_the_model_says_is_estimated() {
    let likely = (0..20).map(|_| r#"{"token":" the","logprob":-0.125,"bytes":[32,116,104,101]}"#);
    let likely = likely.collect::<Vec<_>>().join(",");
    for (delta, rest) in [
        (r#""content":" the""#, String::new()),
        (r#""role":"assistant","content":" the","reasoning_content":null"#, r#","token_ids":null"#.to_owned()),
        (r#""content":" the""#, format!(r#","logprobs":{{"content":[{{"token":" the","top_logprobs":[{likely}]}}]}}"#)),
        (r#""tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]"#, r#","stop_reason":null"#.to_owned()),
    ] {
        let word = format!(
            r#"data: {{"id":"c1","choices":[{{"index":0,"delta":{{{delta}}}{rest},"finish_reason":null}}],"usage":null}}"#
        );
        let (_, end, usage) = relay([stream(&[&*word; 10], "\n").as_bytes()]);
        assert_eq!((end, usage), (Err(StreamError::CutOff), (7, 10, true)), "{word}");
    }
}

#[test]
fn only_the_fields_of_events_pass() {
    // Comments and event names pass unchanged.
    let fields = format!(": hm\nevent: message\n{WORD}\n\n");
    let text = fields.clone() + &stream(&[USAGE, DONE_LINE], "\n");
    assert_eq!(relay([text.as_bytes()]), (renamed(&text), Ok(()), USAGE_OF_FRAME));
    for line in [
        r#"{"object":"error","message":"secret words"}"#,
        "secret words",
        "secret: words",
        "Data: secret words",
        " data: secret words",
        "dataset: secret words",
    ] {
        for text in [
            stream(&[WORD, line, DONE_LINE], "\n"),
            stream(&[WORD], "\n") + line,
            stream(&[WORD, &format!(": hm\n{line}"), USAGE], "\r\n").replace("hm\n", "hm\r\n"),
        ] {
            let (out, end, _) = relay([text.as_bytes()]);
            assert!(!out.contains("secret") && !out.contains("hm"), "{out}");
            assert_eq!(end, Err(StreamError::NoEvent(ErrorReport::NONE)), "{text}");
        }
    }
    // A comment's text is the provider's too, but no part of its errors.
    assert_eq!(relay([&b"event: error\n\n"[..]]).1, Err(StreamError::Reported(ErrorReport::NONE)));
    assert_eq!(relay([&b"event: Error \ndata: x\n\n"[..]]).1, Err(StreamError::Reported(ErrorReport::NONE)));
}

#[test]
fn what_an_error_before_the_first_word_complains_of_is_known() {
    let role = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
    let long = r#""message":"This model's maximum context length is 5 tokens.""#;
    let report = |complaint, status| ErrorReport { complaint: Some(complaint), status };
    for (error, status) in [
        (format!(r#"data: {{"error":{{{long},"code":400}}}}"#), Some(400)),
        (format!(r#"data: {{"object":"error",{long}}}"#), None),
        (format!("event: error\ndata: {{{long}}}"), None),
    ] {
        for before in [&[][..], &[role], &[": hm", role]] {
            let text = stream(&[before, &[&error, DONE_LINE]].concat(), "\n");
            let reported = Err(StreamError::Reported(report(RequestComplaint::ContextLength, status)));
            assert_eq!(relay([text.as_bytes()]).1, reported, "{text}");
        }
        let text = stream(&[WORD, &error, DONE_LINE], "\n");
        assert_eq!(relay([text.as_bytes()]).1, Err(StreamError::Reported(ErrorReport::NONE)), "{text}");
    }
    // Bare, and as a frame that is not part of a completion.
    let bare = stream(&[&format!("{{{long}}}")], "\n");
    assert_eq!(relay([bare.as_bytes()]).1, Err(StreamError::NoEvent(report(RequestComplaint::ContextLength, None))));
    let odd = stream(&[&format!("data: {{{long}}}"), DONE_LINE], "\n");
    assert_eq!(relay([odd.as_bytes()]).1, Err(StreamError::Reported(report(RequestComplaint::ContextLength, None))));
}

#[test]
fn a_stream_in_which_the_model_says_nothing_is_no_answer() {
    let role = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
    let filtered = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason": "content_filter"}]}"#;
    let azure = r#"data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#;
    for events in [
        &[USAGE, DONE_LINE][..],
        &[USAGE],
        &[azure, USAGE, DONE_LINE],
        &[role, filtered, USAGE, DONE_LINE],
        &[filtered, DONE_LINE],
    ] {
        let (out, end, (_, completion, _)) = relay([stream(events, "\n").as_bytes()]);
        assert_eq!(end, Err(StreamError::NoAnswer), "{events:?}");
        assert!(!out.contains("[DONE]") && completion <= 2, "{out}");
    }
    // An empty answer that the model ended counts, and so do words before a filter.
    for events in
        [&[role, STOP, USAGE, DONE_LINE][..], &[WORD, filtered, USAGE, DONE_LINE], &[azure, WORD, STOP, DONE_LINE]]
    {
        assert_eq!(relay([stream(events, "\n").as_bytes()]).1, Ok(()), "{events:?}");
    }
}

#[test]
fn a_byte_order_mark_and_the_space_after_done_make_no_difference() {
    let text = stream(&[WORD, STOP, USAGE, "data: [DONE] "], "\n");
    let expected = renamed(&stream(&[WORD, STOP, USAGE, DONE_LINE], "\n"));
    for pieces in [vec!["\u{feff}".as_bytes(), text.as_bytes()], vec![b"\xef", b"\xbb", b"\xbf", text.as_bytes()]] {
        assert_eq!(relay(pieces), (expected.clone(), Ok(()), USAGE_OF_FRAME));
    }
    for done in ["data:\t[DONE]\t", "data: [DONE]\ndata:", "data:\ndata: [DONE]", "data: [DONE]\ndata: "] {
        let text = text.replace("data: [DONE] ", done);
        assert_eq!(relay([text.as_bytes()]), (expected.clone(), Ok(()), USAGE_OF_FRAME), "{done:?}");
    }
}

/// Mistral reports the usage of all choices with the end of each.
#[test]
fn the_usage_of_all_choices_is_not_added_up() {
    let frame = |index: u64, delta: &str, reason: &str, usage: &str| {
        format!(
            r#"data: {{"choices":[{{"index":{index},"delta":{{{delta}}},"finish_reason":{reason}}}],"usage":{usage}}}"#
        )
    };
    let usage = |completion: u64| {
        format!(r#"{{"prompt_tokens":3,"completion_tokens":{completion},"total_tokens":{}}}"#, completion + 3)
    };
    let pieces = |last: [u64; 3]| {
        let roles = (0..3).map(|index| frame(index, r#""role":"assistant","content":"""#, "null", "null"));
        let words = (0..7).flat_map(|_| (0..3).map(|index| frame(index, r#""content":" the""#, "null", "null")));
        let ends = (0..3).zip(last).map(|(index, completion)| frame(index, "", "\"stop\"", &usage(completion)));
        roles.chain(words).chain(ends).chain([DONE_LINE.to_owned()]).collect::<Vec<_>>().join("\n\n") + "\n\n"
    };
    // The same total three times; a running total; and 7 tokens each.
    for (last, completion, is_estimated) in [([21; 3], 21, false), ([7, 14, 21], 21, false), ([7; 3], 21, true)] {
        let relayed = relay_choices(3, [pieces(last).as_bytes()]);
        assert_eq!(
            (relayed.end, relayed.usage),
            (Ok(()), TokenUsage { is_estimated, ..TokenUsage::reported(3, completion) }),
            "{last:?}"
        );
    }
    // Without reports, frames without words have no tokens.
    let silent = pieces([21; 3]).replace(&usage(21), "null");
    assert_eq!(relay_choices(3, [silent.as_bytes()]).usage, TokenUsage::estimated(7, 21));
}

/// vLLM can report the usage of a choice with each of its pieces.
#[test]
fn the_usage_of_one_of_several_choices_is_not_taken_for_all() {
    let frame = |index: u64, completion: u64, reason: &str| {
        let content = "x".repeat(40);
        let usage =
            format!(r#"{{"prompt_tokens":3,"completion_tokens":{completion},"total_tokens":{}}}"#, completion + 3);
        format!(
            r#"data: {{"choices":[{{"index":{index},"delta":{{"content":"{content}"}},"finish_reason":{reason}}}],"usage":{usage}}}"#
        )
    };
    let pieces = [frame(0, 10, "null"), frame(1, 10, "null"), frame(0, 20, "null"), frame(1, 20, "\"stop\"")];
    let of = |choices: u64, last: &[&str]| {
        let events: Vec<&str> = pieces.iter().map(String::as_str).chain(last.iter().copied()).collect();
        relay_choices(choices, [stream(&events, "\n").as_bytes()])
    };
    let usage =
        |prompt, completion, is_estimated| TokenUsage { is_estimated, ..TokenUsage::reported(prompt, completion) };
    let cut = of(2, &[]);
    assert_eq!((cut.end, cut.usage_so_far), (Err(StreamError::CutOff), usage(3, 40, true)));
    let done = of(2, &[DONE_LINE]);
    assert_eq!((done.end, done.usage), (Ok(()), usage(3, 40, true)));
    assert!(String::from_utf8(done.out).unwrap().contains(r#""completion_tokens":40"#));
    let summed =
        USAGE.replace(r#""completion_tokens":2,"total_tokens":5"#, r#""completion_tokens":44,"total_tokens":47"#);
    assert_eq!(of(2, &[&summed, DONE_LINE]).usage, usage(3, 44, false));
    // A single report covers all choices.
    let silent = pieces[..3].iter().map(|piece| piece.split(",\"usage\"").next().unwrap().to_owned() + "}");
    let once = silent.chain([pieces[3].clone()]).collect::<Vec<_>>().join("\n\n") + "\n\n";
    for end in ["", "data: [DONE]\n\n"] {
        let once = relay_choices(2, [(once.clone() + end).as_bytes()]);
        assert_eq!((once.end, once.usage), (Ok(()), usage(3, 20, false)), "{end}");
    }
    // With one choice, it is the total.
    let single = of(1, &[]);
    assert_eq!((single.end, single.usage), (Ok(()), usage(3, 20, false)));
}

#[test]
fn usage_that_was_reported_once_is_not_taken_back() {
    let usage = |prompt: u64, completion: u64, total: u64| {
        let usage = format!(r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{total}}}"#);
        USAGE.replace(r#"{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}"#, &usage)
    };
    let null =
        USAGE.replace(r#""usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}"#, r#""usage":null"#);
    let twice = USAGE.replace("5}}", r#"5},"usage":null}"#);
    for (events, expected) in [
        (vec![USAGE.to_owned(), null], (3, 2, false)),
        (vec![twice], (3, 2, false)),
        // A smaller report than an earlier one is ignored.
        (vec![USAGE.to_owned(), usage(0, 0, 0)], (3, 2, false)),
        (vec![usage(9, 40, 49), usage(9, 39, 48)], (9, 40, false)),
        (vec![usage(9, 40, 49), usage(9, 41, 50)], (9, 41, false)),
        // Tokens that are only in the total belong to the completion: some provider counts its reasoning there.
        (vec![usage(10, 5, 100)], (10, 90, false)),
        (vec![usage(10, 5, 3)], (10, 5, false)),
        // Words without tokens: the report does not count them.
        (vec![usage(0, 0, 0)], (7, 4, true)),
        (vec![usage(9, 0, 9)], (9, 4, true)),
    ] {
        let text = stream(&[WORD, STOP], "\n") + &events.join("\n\n") + "\n\ndata: [DONE]\n\n";
        assert_eq!(relay([text.as_bytes()]).2, expected, "{events:?}");
    }
    // Cut off after all content.
    let text = stream(&[WORD, STOP, USAGE, "data: {\"half"], "\n");
    let (_, end, usage) = relay([text.as_bytes()]);
    assert_eq!((end, usage), (Err(StreamError::InvalidJson), USAGE_OF_FRAME));
}

#[test]
fn words_that_follow_a_report_of_none_are_estimated() {
    let first =
        WORD.replace(r#""usage":null"#, r#""usage":{"prompt_tokens":9,"completion_tokens":0,"total_tokens":9}"#);
    let first = first.replace(r#"\"model\":\"x\""#, "");
    let (out, end, usage) = relay([stream(&[&first, WORD, DONE_LINE], "\n").as_bytes()]);
    assert_eq!((end, usage), (Ok(()), (9, 4, true)));
    assert!(out.contains(r#""total_tokens":13,"estimated":true"#), "{out}");
}

#[test]
fn a_frame_of_several_lines_is_joined() {
    let text = "data: {\"model\":\ndata: \"Qwen3-32B\",\ndata:\"choices\":[{}]}\n\ndata: [DONE]\n\n";
    let (out, end, _) = relay([text.as_bytes()]);
    assert_eq!(end, Ok(()));
    assert!(out.starts_with("data: {\"model\": \"svc/qwen3-32b\", \"choices\":[{}]}\n\n"), "{out}");
}

#[test]
fn a_frame_without_an_end_is_too_large() {
    let piece = [b'x'; 10_000];
    let pieces = std::iter::once(&b"data: "[..]).chain(std::iter::repeat_n(&piece[..], 200));
    assert_eq!(relay(pieces).1, Err(StreamError::TooLarge));
}

#[test]
fn cuts_and_line_ends_make_no_difference() {
    let wire = WireChecks::new().unwrap();
    for end in ["\n", "\r\n", "\r"] {
        let text = stream(&[": hm", WORD, WORD, STOP, USAGE, DONE_LINE], end) + "data: {}\n\n";
        // Comments are rewritten.
        let expected = format!(": hm\n\n{}data: [DONE]\n\n", renamed(&stream(&[WORD, WORD, STOP, USAGE], end)));
        assert_eq!(relay([text.as_bytes()]), (expected, Ok(()), USAGE_OF_FRAME), "{end:?}");
        for cuts in 0..=u8::MAX {
            wire.check_frames(&[&[cuts][..], text.as_bytes()].concat()).unwrap();
        }
    }
}
