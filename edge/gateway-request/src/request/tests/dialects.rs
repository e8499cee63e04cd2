//! Requests in the dialects of the shipped providers, rule by rule. Whole conversations, against stubs that refuse what
//! the providers refuse, are in tests/gateway/histories.rs.

use config::gateway::{CallIdForm, MessageRules, ReasoningForm, UnsupportedConstruct};
use serde_json::{Value, json};

use super::*;

fn shipped(provider: &str) -> ProviderQuirks {
    Gateway::default().providers[provider].quirks.clone()
}

/// Returns the provider's body for a request with these fields besides the model.
fn body(quirks: &ProviderQuirks, fields: &str) -> String {
    let body = format!(r#"{{"model":"svc/qwen3-32b",{fields}}}"#);
    let request = validate(&Bytes::from(body.clone()), &models(quirks), &RequestLimits::default())
        .unwrap_or_else(|error| panic!("{body}: {error:?}"));
    String::from_utf8(request.body.joined().to_vec()).unwrap()
}

fn messages(quirks: &ProviderQuirks, messages: &str) -> String {
    let sent = body(quirks, &format!(r#""messages":{messages},"max_tokens":1"#));
    let sent = sent.strip_prefix(r#"{"model":"Qwen3-32B","messages":"#).unwrap_or_else(|| panic!("{sent}"));
    sent.split_once(r#","max_tokens":1"#).unwrap_or_else(|| panic!("{sent}")).0.to_owned()
}

/// Returns additional fields as written for the provider.
fn fields(quirks: &ProviderQuirks, fields: &str) -> String {
    let sent = body(quirks, &format!(r#""messages":[{{"role":"user","content":"hi"}}],"max_tokens":1,{fields}"#));
    let rest = sent.split_once(r#""max_tokens":1"#).unwrap_or_else(|| panic!("{sent}")).1;
    rest.trim_start_matches(r#","max_completion_tokens":1"#).strip_suffix('}').unwrap().to_owned()
}

const USER: &str = r#"{"role":"user","content":"hi"}"#;

#[test]
fn messages_have_the_fields_of_their_role() {
    let mistral = shipped("mistral");
    for (sent, expected) in [
        (r#"{"role":"user","content":"hi","name":"ada"}"#, USER),
        (r#"{ "content" : "hi","role":"user","x":{"y":[1]},"name":null}"#, r#"{"content":"hi","role":"user"}"#),
        (r#"{"role":"developer","content":"Be brief."}"#, r#"{"role":"system","content":"Be brief."}"#),
        (r#"{"r\u006fle":"dev\u0065loper","content":"x"}"#, r#"{"role":"system","content":"x"}"#),
        (r#"{"role":"function","name":"f","content":"7"}"#, r#"{"role":"user","content":"7"}"#),
        (
            r#"{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"},"annotations":[]},{"type":"image_url","image_url":{"url":"data:,x","format":"png","detail":null},"text":null}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,x"}}]}"#,
        ),
    ] {
        assert_eq!(messages(&mistral, &format!("[{sent}]")), format!("[{expected}]"));
    }
    // As openai-python dumps an answer.
    let dumped = r#"{"content":"Hi.","refusal":null,"role":"assistant","annotations":[],"audio":null,"function_call":null,"tool_calls":null,"reasoning_content":"so"}"#;
    let sent = messages(&mistral, &format!("[{USER},{dumped},{USER}]"));
    assert_eq!(sent, format!(r#"[{USER},{{"content":"Hi.","role":"assistant"}},{USER}]"#));
}

#[test]
fn other_providers_get_messages_as_they_were_sent() {
    let message =
        r#"{"role" : "developer","content":[{"type":"thinking","thinking":"x"}],"name":null,"x":1.0,"tool_calls":[]}"#;
    let sent = format!("[{}]", message.replace("developer", "assistant"));
    assert_eq!(messages(&ProviderQuirks::default(), &sent), sent);
    let sent = format!("[{USER},{{\"role\" : \"developer\",\"content\":null}}]");
    assert_eq!(messages(&ProviderQuirks::default(), &sent), sent);
    // Except for fields that no provider gets.
    let cached = r#"[{"role":"system","cache_control":{"type":"ephemeral"},"content":[{"annotations":[],"type":"text","text" : "x"}],"name":null}]"#;
    assert_eq!(
        messages(&ProviderQuirks::default(), cached),
        r#"[{"role":"system","content":[{"type":"text","text" : "x"}],"name":null}]"#
    );
}

#[test]
fn calls_and_their_results_have_ids_of_the_providers_form() {
    let (mistral, id) = (shipped("mistral"), "OANJQSxzk");
    let history = |id: &str, more: &str, result: &str| {
        format!(
            r#"[{USER},{{"role":"assistant","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"{more}}}{more}}}]}},{{"role":"tool","tool_call_id":"{result}","content":"7"}}]"#
        )
    };
    let expected = history(id, "", id);
    let sent = history("call_abc123", r#","index":0,"provider_specific_fields":null"#, r"call_\u0061bc123");
    assert_eq!(messages(&mistral, &sent), expected);
    assert_eq!(messages(&mistral, &expected), expected, "as the client has it from another answer");
    let rules = MessageRules { call_ids: CallIdForm::NineAlphanumerics, ..MessageRules::default() };
    let only_ids = ProviderQuirks { messages: rules, ..ProviderQuirks::default() };
    assert_eq!(messages(&only_ids, &history("call_abc123", "", "call_abc123")), expected);
    assert_eq!(messages(&ProviderQuirks::default(), &sent), sent);
}

#[test]
fn roles_follow_each_other_as_the_provider_demands() {
    let mistral = shipped("mistral");
    let roles = |sent: &[&str]| {
        let message = |role: &&str| json!({ "role": role, "content": "x", "tool_call_id": "abcdefghi" });
        let sent = Value::from(sent.iter().map(message).collect::<Vec<_>>()).to_string();
        let written: Vec<Value> = serde_json::from_str(&messages(&mistral, &sent)).unwrap();
        let written = written.iter().map(|message| {
            let (role, content) = (message["role"].as_str().unwrap(), message["content"].as_str().unwrap());
            format!(
                "{role}{}{}",
                if content == "x" { "" } else { content },
                if message["prefix"] == true { "+" } else { "" }
            )
        });
        written.collect::<Vec<_>>().join(" ")
    };
    for (sent, written) in [
        (&["user"][..], "user"),
        (&["system", "system", "user", "user", "assistant", "user"], "system system user user assistant user"),
        (&["user", "assistant", "tool", "tool", "user"], "user assistant tool tool assistantDone. user"),
        (&["user", "assistant", "tool", "assistant", "user"], "user assistant tool assistant user"),
        (&["user", "assistant", "system", "user"], "user assistant user user"),
        (&["user", "assistant", "tool", "developer"], "user assistant tool assistantDone. user"),
        // The beginning of the answer.
        (&["user", "assistant"], "user assistant+"),
        (&["user", "assistant", "assistant"], "user assistant assistant+"),
    ] {
        assert_eq!(roles(sent), written, "{sent:?}");
    }
    let prefix = format!(r#"[{USER},{{"role":"assistant","content":"x","prefix":false}}]"#);
    assert_eq!(messages(&mistral, &prefix), prefix, "the client's own word counts");
}

#[test]
fn turns_that_say_nothing_are_left_out() {
    let mistral = shipped("mistral");
    for silent in [
        r#"{"role":"assistant"}"#,
        r#"{"role":"assistant","content":null,"reasoning_content":"so"}"#,
        r#"{"role":"assistant","content":"","tool_calls":[]}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]}]}"#,
        r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#,
    ] {
        assert_eq!(messages(&mistral, &format!("[{USER},{silent},{USER}]")), format!("[{USER},{USER}]"), "{silent}");
        let alone: Vec<Value> = serde_json::from_str(&messages(&mistral, &format!("[{silent}]"))).unwrap();
        assert_eq!(alone[0]["role"], "assistant", "nothing would be left");
    }
}

#[test]
fn refusals_are_words_where_the_provider_has_no_other_place_for_them() {
    let mistral = shipped("mistral");
    let text = r#"{"role":"assistant","content":[{"type":"text","text":"No."}]}"#;
    let part = r#"{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}"#;
    let field = r#"{"role":"assistant","refusal":"No.","content":null}"#;
    let other = r#"{"role":"assistant","refusal":"No."}"#;
    let of = |message: &str| messages(&mistral, &format!("[{USER},{message},{USER}]"));
    assert_eq!(of(part), format!("[{USER},{text},{USER}]"));
    let string = r#"{"role":"assistant","content":"No."}"#;
    assert_eq!((of(field), of(other)), (of(string), of(string)));
    let kept = format!("[{USER},{part},{field}]");
    assert_eq!(messages(&shipped("scaleway"), &kept), kept);
}

#[test]
fn thoughts_come_back_in_the_form_of_the_provider() {
    let with = |thoughts| ProviderQuirks {
        messages: MessageRules { thoughts, ..MessageRules::default() },
        ..ProviderQuirks::default()
    };
    let of = |thoughts, message: &str| {
        let sent = messages(&with(thoughts), &format!(r#"[{{"role":"assistant",{message}}}]"#));
        sent.strip_prefix(r#"[{"role":"assistant""#)
            .unwrap()
            .strip_suffix("}]")
            .unwrap()
            .trim_start_matches(',')
            .to_owned()
    };
    let (part, text) =
        (r#"{"type":"thinking","thinking":[{"type":"text","text":"so"}]}"#, r#"{"type":"text","text":"1"}"#);
    let field = r#""content":"1","reasoning_content":"so""#;
    let parts = format!(r#""content":[{part},{text}]"#);
    for (thoughts, sent, expected) in [
        (ReasoningForm::AsSent, field, field),
        (ReasoningForm::AsSent, &parts, &parts),
        (ReasoningForm::Drop, field, r#""content":"1""#),
        (ReasoningForm::Drop, r#""content":"1","reasoning":"so""#, r#""content":"1""#),
        (ReasoningForm::Drop, &parts, &format!(r#""content":[{text}]"#)),
        (ReasoningForm::Field, field, field),
        (ReasoningForm::Field, &parts, &format!(r#""content":[{text}],"reasoning_content":"so""#)),
        (ReasoningForm::Field, &format!(r#""content":[{part}]"#), r#""content":"","reasoning_content":"so""#),
        (
            ReasoningForm::Field,
            &format!(r#""reasoning_content":null,{parts}"#),
            &format!(r#""content":[{text}],"reasoning_content":"so""#),
        ),
        (ReasoningForm::Parts, &parts, &parts),
        (ReasoningForm::Parts, field, &parts),
        (ReasoningForm::Parts, r#""reasoning_content":"so""#, &format!(r#""content":[{part}]"#)),
        (ReasoningForm::Parts, r#""content":null,"reasoning":"so""#, &format!(r#""content":[{part}]"#)),
        (ReasoningForm::Parts, &format!(r#""reasoning_content":"so","content":[{text}]"#), &parts),
    ] {
        assert_eq!(of(thoughts, sent), expected, "{thoughts:?}: {sent}");
        assert_eq!(of(thoughts, expected), expected, "{thoughts:?}, sent again");
    }
    // Thoughts of other roles are plain fields.
    let user = r#"[{"role":"user","content":"1","reasoning_content":"so"}]"#;
    assert_eq!(messages(&with(ReasoningForm::Drop), user), user);
}

#[test]
fn values_are_those_that_the_provider_has() {
    for (provider, levels) in [
        ("mistral", "none:none minimal:none low:none medium:high high:high xhigh:high max:high"),
        ("scaleway", "none:low minimal:low low:low medium:medium high:high xhigh:high max:high odd:odd"),
    ] {
        for (sent, expected) in levels.split(' ').map(|level| level.split_once(':').unwrap()) {
            let of = |level: &str| fields(&shipped(provider), &format!(r#""reasoning_effort":"{level}""#));
            assert_eq!(of(sent), format!(r#","reasoning_effort":"{expected}""#), "{provider}");
        }
    }
    assert_eq!(
        fields(&ProviderQuirks::default(), r#""reasoning_effort" : "xhigh""#),
        r#","reasoning_effort" : "xhigh""#
    );
}

#[test]
fn what_asks_for_nothing_is_left_out_where_it_is_refused() {
    let mistral = shipped("mistral");
    let nothing = r#""audio":null,"modalities":["text"],"functions":[],"function_call":null,"prediction":null,"verbosity":"low",
        "web_search_options":null,"min_p":null,"repetition_penalty":null,"prompt_cache_key":"x","safety_identifier":"x",
        "thinking":null,"extra_body":{},"n":null,"stop":null,"temperature":null,"logprobs":false,"top_logprobs":0,
        "logit_bias":{},"user":"ada","metadata":{"a":"b"},"prompt_cache_retention":"24h","best_of":1,"echo":false,
        "stream":null,"tools":[],"tool_choice":"auto","service_tier":"auto","store":true,"response_format":null"#;
    assert_eq!(fields(&mistral, nothing), "");
    let stream = fields(&mistral, r#""stream":true,"n":2,"stream_options":null,"tool_choice":null,"tools":null"#);
    assert_eq!(stream, r#","stream":true,"n":2"#);
    // Fields that are not sent to a provider without a list.
    let nothing = r#""metadata":{"a":"b"},"prompt_cache_retention":"24h","best_of":1,"echo":false,"extra_body":{ },"ignore_eos":false,"plugins":[]"#;
    assert_eq!(fields(&ProviderQuirks::default(), nothing), "");
    let passes =
        r#","best_of":null,"tools":[],"tool_choice":"auto","modalities":["text"],"logprobs":false,"x_unknown":[]"#;
    assert_eq!(fields(&ProviderQuirks::default(), &passes[1..]), passes);
    for refused in [
        r#""best_of":2"#,
        r#""echo":true"#,
        r#""extra_body":{"a":1}"#,
        r#""Metadata":{}"#,
        r#""web_search_options":{}"#,
    ] {
        let name = refused[1..].split_once('"').unwrap().0;
        let param = refused_param(&ProviderQuirks::default(), refused);
        assert_eq!(param.as_deref(), (name != "Metadata").then_some(name), "{refused}");
    }
}

#[test]
fn tools_and_choices_are_those_that_the_provider_has() {
    let (plain, vllm) = (ProviderQuirks::default(), shipped("scaleway"));
    let tool =
        |name: &str, more: &str| format!(r#"{{"type":"function","function":{{"name":"{name}","strict":true}}{more}}}"#);
    let (f, g) = (tool("f", ""), tool("g", ""));
    let cached = tool("f", r#","cache_control":{"type":"ephemeral"},"strict":true"#);
    for quirks in [&plain, &vllm, &shipped("mistral")] {
        assert_eq!(fields(quirks, &format!(r#""tools":[{cached}]"#)), format!(r#","tools":[{f}]"#));
        for (kind, word) in [("auto", "auto"), ("none", "none"), ("required", "required"), ("any", "required")] {
            let sent = fields(quirks, &format!(r#""tools":[{f}],"tool_choice":{{"type":"{kind}"}}"#));
            assert_eq!(sent, format!(r#","tools":[{f}],"tool_choice":"{word}""#));
        }
    }
    let allowed = format!(
        r#""tool_choice":{{"type":"allowed_tools","allowed_tools":{{"mode":"required","tools":[{{"type":"function","function":{{"name":"\u0067"}}}}]}}}},"tools":[{f}, {g}]"#
    );
    assert_eq!(fields(&plain, &allowed), format!(",{allowed}"));
    assert_eq!(fields(&vllm, &allowed), format!(r#","tool_choice":"required","tools":[{g}]"#));
    let none_of_them = allowed.replace(r"\u0067", "h");
    assert_eq!(fields(&vllm, &none_of_them), "");
    for empty in [r#""tools":[],"tool_choice":"none""#, r#""tool_choice":"auto""#, r#""tools":null"#] {
        assert_eq!(fields(&vllm, empty), "", "{empty}");
        assert_eq!(fields(&plain, empty), format!(",{empty}"));
    }

    let custom = r#""tools":[{"type":"custom","custom":{"name":"f","format":{"type":"text"}}}],"tool_choice":{"type":"custom","custom":{"name":"f"}}"#;
    let takes_custom = ProviderQuirks { custom_tools: true, ..ProviderQuirks::default() };
    assert_eq!(fields(&takes_custom, custom), format!(",{custom}"));
    let refusal = |fields: &str| {
        refused(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{USER}],{fields}}}"#)).1["message"].to_string()
    };
    assert!(refusal(custom).contains("the model's provider has no tools of other types"), "{}", refusal(custom));
    assert!(refusal(r#""tools":[{"type":"web_search"}]"#).contains("runs at the provider"));
    for (choice, param) in [
        (r#"{"type":"auto","x":1}"#, "tool_choice.x"),
        (r#"{"type":"allowed_tools","allowed_tools":{"mode":"all","tools":[]}}"#, "tool_choice.allowed_tools.mode"),
        (
            r#"{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"mcp"}]}}"#,
            "tool_choice.allowed_tools.tools[0].type",
        ),
        (r#"{"type":"allowed_tools","allowed_tools":{"tools":[],"x":1}}"#, "tool_choice.allowed_tools.x"),
        (r#"{"type":"allowed_tools","tools":[]}"#, "tool_choice.type"),
    ] {
        assert_eq!(refused_param(&plain, &format!(r#""tool_choice":{choice}"#)).as_deref(), Some(param), "{choice}");
    }
}

#[test]
fn half_a_character_does_not_end_a_conversation() {
    let cut = r#"[{"role":"user","content":"a\ud83d"},{"role":"user","content":[{"type":"text","text":"\uDe00 \ud83d\ude00"}]}]"#;
    let mended = r#"[{"role":"user","content":"a\ufffd"},{"role":"user","content":[{"type":"text","text":"\ufffd \ud83d\ude00"}]}]"#;
    assert_eq!(messages(&ProviderQuirks::default(), cut), mended);
    let (_, error) = refused(&format!(r#"{{"model":"svc/qwen3-32b","messages":[{USER}],"x\ud83d":1}}"#));
    assert_eq!(error["code"], "invalid_value", "names are not");
}

#[test]
fn a_reservation_covers_what_is_written_for_the_provider() {
    let rules = MessageRules {
        filler: "A turn of many more words than the ones between which it goes.".to_owned(),
        thoughts: ReasoningForm::Parts,
        ..shipped("mistral").messages
    };
    let quirks = ProviderQuirks {
        messages: rules,
        lacks: vec![UnsupportedConstruct::RefusalParts],
        ..ProviderQuirks::default()
    };
    let turns = r#"{"role":"assistant","reasoning_content":"x"},{"role":"tool","tool_call_id":"","content":""},{"role":"user","content":""},"#;
    let body = format!(r#"{{"model":"svc/gpt-oss-20b","messages":[{}{USER}]}}"#, turns.repeat(40));
    let request = validate(&Bytes::from(body.clone()), &models(&quirks), &RequestLimits::default()).unwrap();
    assert!(request.body.len() > body.len() + 40 * 100, "{}", request.body.len());
    assert!(request.max_usage.prompt >= request.body.len() as u64);
}
