use config::gateway::JsonPointer;
use domain::usage::{CompletionCharge, ModelPrices};

use super::*;

#[test]
fn incomplete_and_unbelievable_reports_are_ignored() {
    for usage in [
        "7",
        "{}",
        r#"{"prompt_tokens":-1,"completion_tokens":1}"#,
        r#"{"prompt_tokens":4,"completion_tokens":"7","total_tokens":4}"#,
        r#"{"prompt_tokens":1,"completion_tokens":99999999999}"#,
    ] {
        assert!(parse(usage.as_bytes()).is_none(), "{usage}");
    }
    for (usage, completion) in [
        (r#"{"prompt_tokens":4,"total_tokens":9}"#, 5),
        (r#"{"prompt_tokens":4,"completion_tokens":"7","total_tokens":9}"#, 5),
        (r#"{"prompt_tokens":4,"completion_tokens":7,"total_tokens":11.5}"#, 7),
        (r#"{"prompt_tokens":9,"prompt_tokens":4,"completion_tokens":7,"total_tokens":-1,"x":[{}]}"#, 7),
    ] {
        let reported = parse(usage.as_bytes()).unwrap();
        assert_eq!((reported.prompt, reported.completion), (4, completion), "{usage}");
    }
}

/// Cached tokens are cheap, as at most providers.
const CHEAP: ModelPrices =
    ModelPrices { input: 100, cached_input: 10, cache_write: 100, output: 400, reasoning: 400, image: 0 };
/// Every kind has its own price.
const ALL: ModelPrices = ModelPrices { cache_write: 125, reasoning: 600, ..CHEAP };

fn places(change: impl FnOnce(&mut UsageFields)) -> UsageFields {
    let mut places = UsageFields::default();
    change(&mut places);
    places
}

fn pointer(text: &str) -> JsonPointer {
    text.to_owned().try_into().unwrap()
}

/// The cost of a completion of 1,000 and 50 tokens, by the providers' reports, with flat prices and those above; and
/// which kinds are assumed if each has its price. 600 tokens were cached and 40 are thoughts, where reported.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of what providers say")]
fn tokens_are_charged_once_as_each_provider_counts_them() {
    let (deepseek, mistral) = (
        places(|places| places.cached_input = pointer("/prompt_cache_hit_tokens")),
        places(|places| places.cached_input = pointer("/num_cached_tokens")),
    );
    let thoughts_beside = places(|places| places.completion_includes_reasoning = false);
    let gemini = places(|places| {
        places.prompt = pointer("/promptTokenCount");
        places.completion = pointer("/candidatesTokenCount");
        places.total = pointer("/totalTokenCount");
        places.cached_input = pointer("/cachedContentTokenCount");
        places.reasoning = pointer("/thoughtsTokenCount");
        places.completion_includes_reasoning = false;
    });
    let (openai, responses, messages) = (UsageFields::default(), UsageFields::responses(), UsageFields::messages());
    let all = "cached_input,cache_write,reasoning";
    for (name, places, usage, cheap, dear, assumed) in [
        (
            "OpenAI",
            &openai,
            r#"{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"prompt_tokens_details":{"cached_tokens":600,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":40,"audio_tokens":0}}"#,
            66_000,
            84_000,
            "cache_write",
        ),
        (
            "OpenAI's responses",
            &responses,
            r#"{"input_tokens":1000,"input_tokens_details":{"cached_tokens":600},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":40},"total_tokens":1050}"#,
            66_000,
            84_000,
            "cache_write",
        ),
        (
            "vLLM, Scaleway and OVHcloud",
            &openai,
            r#"{"prompt_tokens":1000,"total_tokens":1050,"completion_tokens":50,"prompt_tokens_details":null}"#,
            120_000,
            155_000,
            all,
        ),
        (
            "Mistral",
            &mistral,
            r#"{"prompt_tokens":1000,"prompt_audio_seconds":{},"num_cached_tokens":600,"total_tokens":1050,"completion_tokens":50}"#,
            66_000,
            86_000,
            "cache_write,reasoning",
        ),
        (
            "DeepSeek",
            &deepseek,
            r#"{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"prompt_cache_hit_tokens":600,"prompt_cache_miss_tokens":400,"completion_tokens_details":{"reasoning_tokens":40}}"#,
            66_000,
            84_000,
            "cache_write",
        ),
        (
            "Anthropic, with 300 tokens written",
            &messages,
            r#"{"input_tokens":100,"cache_creation_input_tokens":300,"cache_read_input_tokens":600,"output_tokens":50}"#,
            66_000,
            83_500,
            "reasoning",
        ),
        (
            "Anthropic, silent of its cache",
            &messages,
            r#"{"input_tokens":1000,"output_tokens":50,"cache_creation_input_tokens":null}"#,
            120_000,
            155_000,
            all,
        ),
        (
            "Gemini's own",
            &gemini,
            r#"{"promptTokenCount":1000,"cachedContentTokenCount":600,"candidatesTokenCount":10,"thoughtsTokenCount":40,"totalTokenCount":1050}"#,
            66_000,
            84_000,
            "cache_write",
        ),
        (
            "Gemini in OpenAI's words, with thoughts in the total alone",
            &openai,
            r#"{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1050}"#,
            120_000,
            155_000,
            all,
        ),
        (
            "xAI, with thoughts beside the completion",
            &openai,
            r#"{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1050,"prompt_tokens_details":{"cached_tokens":600},"completion_tokens_details":{"reasoning_tokens":40}}"#,
            66_000,
            84_000,
            "cache_write",
        ),
        (
            "thoughts beside the completion, and no total",
            &thoughts_beside,
            r#"{"prompt_tokens":1000,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":600},"completion_tokens_details":{"reasoning_tokens":40}}"#,
            66_000,
            84_000,
            "cache_write",
        ),
        (
            "everything said, with 300 tokens written and no thoughts",
            &openai,
            r#"{"prompt_tokens":1000,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":600,"cache_creation_tokens":300},"completion_tokens_details":{"reasoning_tokens":0}}"#,
            66_000,
            73_500,
            "",
        ),
        (
            "no whole numbers",
            &openai,
            r#"{"prompt_tokens":1000,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":600.0},"completion_tokens_details":{"reasoning_tokens":"40"}}"#,
            120_000,
            155_000,
            all,
        ),
        (
            "negative numbers, and details that are no objects",
            &openai,
            r#"{"prompt_tokens":1000,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":-1},"completion_tokens_details":[40]}"#,
            120_000,
            155_000,
            all,
        ),
    ] {
        let usage = parse_provider_usage(usage.as_bytes(), places, 0).unwrap();
        assert_eq!((usage.prompt, usage.completion, usage.is_contradictory), (1_000, 50, false), "{name}");
        let of = |prices: &ModelPrices| prices.charge(usage.prompt, usage.completion, &usage.kinds);
        assert_eq!(of(&ModelPrices::flat(15, 45)).cost.0, 17_250, "{name}");
        assert_eq!(of(&CHEAP).cost.0, cheap, "{name}");
        let CompletionCharge { cost, assumed: kinds } = of(&ALL);
        assert_eq!((cost.0, kinds.names().collect::<Vec<_>>().join(",").as_str()), (dear, assumed), "{name}");
        // A client reads the same from the gateway's report.
        let said = to_json(&usage, &CostFields::from(of(&ALL)));
        assert_eq!(parse(said.as_bytes()), Some(usage), "{said}");
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["cost_microeuros"], dear.div_ceil(100), "{name}");
        assert_eq!(said.get("cost_assumed").is_none(), assumed.is_empty(), "{name}");
    }
}

#[test]
fn reports_that_contradict_themselves_are_cut_and_counted() {
    for (usage, cheap, dear) in [
        (
            r#""prompt_tokens_details":{"cached_tokens":5000},"completion_tokens_details":{"reasoning_tokens":90}"#,
            30_000,
            40_000,
        ),
        (
            r#""prompt_tokens_details":{"cached_tokens":600,"cache_creation_tokens":700},"completion_tokens_details":{"reasoning_tokens":0}"#,
            66_000,
            76_000,
        ),
    ] {
        let usage = format!(r#"{{"prompt_tokens":1000,"completion_tokens":50,{usage}}}"#);
        let usage = parse_provider_usage(usage.as_bytes(), &UsageFields::default(), 0).unwrap();
        assert!(usage.is_contradictory);
        let of = |prices: &ModelPrices| prices.charge(usage.prompt, usage.completion, &usage.kinds).cost.0;
        assert_eq!((of(&CHEAP), of(&ALL)), (cheap, dear));
    }
}

#[test]
fn images_are_counted_by_the_provider_or_by_the_request() {
    let counted = places(|places| places.images = Some(pointer("/images")));
    let usage = r#"{"prompt_tokens":4,"completion_tokens":1,"images":2}"#;
    let of = |places: &UsageFields| parse_provider_usage(usage.as_bytes(), places, 3).unwrap().kinds.images;
    assert_eq!((of(&counted), of(&UsageFields::default())), (2, 3));
    let expected = ExpectedUsage { prompt: 4, completion: 9, choices: 1, images: 3 };
    assert_eq!(expected.estimate(1).kinds.images, 3);
}

#[test]
fn a_later_report_takes_back_nothing_that_was_said_of_kinds() {
    let of = |usage: &str| parse_provider_usage(usage.as_bytes(), &UsageFields::default(), 0);
    let cached = of(r#"{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":60}}"#);
    let bare = of(r#"{"prompt_tokens":100,"completion_tokens":9}"#);
    let both = merge_reports(cached, bare).unwrap();
    assert_eq!((both.completion, both.kinds.cached), (9, Some(60)));
    let other = of(r#"{"prompt_tokens":101,"completion_tokens":9}"#);
    assert_eq!(merge_reports(cached, other).unwrap().kinds.cached, None);
    assert_eq!(merge_reports(bare, cached), bare);
}

#[test]
fn the_reason_is_found_at_the_end_of_a_frame() {
    let words = "x".repeat(500);
    let of =
        |end: &str| format!(r#"[{{"index":0,"delta":{{"content":"\"finish_reason\":\"length\" {words}"}}{end}}}]"#);
    for (end, ending) in [
        (r#","logprobs":null,"finish_reason":null"#, None),
        (r#","logprobs":null,"finish_reason": "stop","stop_reason":null"#, Some(Ending::Stop)),
        (r#","finish_reason" :"tool_calls""#, Some(Ending::ToolCalls)),
        ("", None),
    ] {
        let choices = of(end);
        assert_eq!(
            (frame_ending(choices.as_bytes()), super::last_finish_reason(choices.as_bytes())),
            (ending, ending),
            "{end}"
        );
    }
}
