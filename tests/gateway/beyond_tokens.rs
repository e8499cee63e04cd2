//! Requests that would cost or reach more than tokens never get to the provider.

use super::Gateway;

/// Fields of requests that are refused, beside the usual ones, as they are written, and the `param` of the refusal.
const REFUSED: [(&str, &str); 106] = [
    // Tools that run at the provider.
    (r#""tools":[{"type":"web_search"}]"#, "tools[0].type"),
    (r#""tools":[{"type":"web_search_premium"}]"#, "tools[0].type"),
    (r#""tools":[{"type":"code_interpreter"}]"#, "tools[0].type"),
    (r#""tools":[{"type":"image_generation"}]"#, "tools[0].type"),
    (r#""tools":[{"type":"document_library","library_ids":["x"]}]"#, "tools[0].type"),
    (r#""tools":[{"type":"connector","connector_id":"x"}]"#, "tools[0].type"),
    (r#""tools":[{"type":"mcp","server_url":"https://example.com"}]"#, "tools[0].type"),
    (r#""tools":[{"type":"file_search"}],"stream":true"#, "tools[0].type"),
    (r#""tools":[{"type":"function"},{"type":"custom"}]"#, "tools[1].type"),
    (r#""tools":[{"type":null}]"#, "tools[0].type"),
    (r#""tools":[{"type":["function"]}]"#, "tools[0].type"),
    (r#""tools":[{"type":"function","type":"web_search"}]"#, "tools[0].type"),
    (r#""tools":[{"type":"web_search","type":"function"}]"#, "tools[0].type"),
    (r#""tools":[{"type":"function","Type":"web_search"}]"#, "tools[0].Type"),
    (r#""tools":[{"TYPE":"web_search"}]"#, "tools[0].TYPE"),
    (r#""tools":[{"type":"function","type\u0000":"web_search"}]"#, "tools[0].type\0"),
    (r#""tools":[{"t\u0079pe":"web_search"}]"#, "tools[0].type"),
    (r#""tools":[],"tools":[{"type":"web_search"}]"#, "tools"),
    (r#""t\u006fols":[{"type":"web_search"}]"#, "tools[0].type"),
    (r#""Tools":[{"type":"web_search"}]"#, "Tools"),
    (r#""TOOLS":[]"#, "TOOLS"),
    (r#""tool\u017f":[{"type":"web_search"}]"#, "tool\u{17f}"),
    // Some servers go by a tool's fields.
    (r#""tools":[{"google_search":{}}]"#, "tools[0].google_search"),
    (r#""tools":[{"type":"function","function":{"name":"f"},"web_search":{}}]"#, "tools[0].web_search"),
    (
        r#""tools":[{"type":"function","function":{"name":"f"},"server_url":"https://example.com"}]"#,
        "tools[0].server_url",
    ),
    (r#""tools":[{"Function":{"name":"f"}}]"#, "tools[0].Function"),
    (r#""tools":[{"function":{"name":"f"},"function":{"name":"g"}}]"#, "tools[0].function"),
    (r#""tool_choice":{"type":"web_search"}"#, "tool_choice.type"),
    (r#""tool_choice":{"type":"mcp","server_label":"x"}"#, "tool_choice.type"),
    (r#""tool_choice":{"type":"function","function":{"name":"f"},"server_label":"x"}"#, "tool_choice.server_label"),
    (r#""tool_choice":{"t\u0079pe":"code_interpreter"}"#, "tool_choice.type"),
    (r#""tool_choice":"none","tool_choice":{"type":"web_search"}"#, "tool_choice"),
    (r#""Tool_Choice":{"type":"web_search"}"#, "Tool_Choice"),
    // Governed fields that are said twice, or whose names are in another form.
    (r#""messages":[{"role":"user"}]"#, "messages"),
    (r#""MODEL":"other""#, "MODEL"),
    (r#""Max_Tokens":100000"#, "Max_Tokens"),
    (r#""max_to\u212aens":100000"#, "max_to\u{212a}ens"),
    (r#""max_completion_token\u017f":100000"#, "max_completion_token\u{17f}"),
    (r#""N":64"#, "N"),
    (r#""\uff4e":64,"n\u0000":64"#, "n\0"),
    (r#""STREAM":true"#, "STREAM"),
    (r#""Store":true"#, "Store"),
    (r#""Stream_Options":{}"#, "Stream_Options"),
    (r#""Messages":[]"#, "Messages"),
    (r#""me\u00dfages":[]"#, "me\u{df}ages"),
    (r#""mod\ud800el":"other""#, r"mod\ud800el"),
    (r#""model\u0000":"other""#, "model\0"),
    (r#""x\ny":1"#, "x\ny"),
    // Other models, hosts and accounts.
    (r#""models":["a","b"]"#, "models"),
    (r#""Models":["a","b"]"#, "Models"),
    (r#""m\u006fdels":["a"]"#, "models"),
    (r#""route":"fallback""#, "route"),
    (r#""provider":{"order":["x"]}"#, "provider"),
    (r#""fallbacks":[{"model":"x"}]"#, "fallbacks"),
    (r#""transforms":["middle-out"]"#, "transforms"),
    (r#""api_base":"http://127.0.0.1:1""#, "api_base"),
    (r#""api_\u0062ase":"http://127.0.0.1:1""#, "api_base"),
    (r#""api_ba\u017fe":"http://127.0.0.1:1""#, "api_ba\u{17f}e"),
    (r#""base_url":"http://127.0.0.1:1""#, "base_url"),
    (r#""api_key":"x""#, "api_key"),
    (r#""extra_headers":{"a":"b"}"#, "extra_headers"),
    (r#""extra_body":{"models":["a"]}"#, "extra_body"),
    (r#""custom_llm_provider":"x""#, "custom_llm_provider"),
    (r#""adapter_id":"x""#, "adapter_id"),
    (r#""lora_path":"x""#, "lora_path"),
    (r#""bootstrap_host":"127.0.0.1""#, "bootstrap_host"),
    (r#""bootstrap_port":1"#, "bootstrap_port"),
    (r#""bootstrap_room":1"#, "bootstrap_room"),
    // What the provider stores, looks up or runs.
    (r#""plugins":[{"id":"web"}]"#, "plugins"),
    (r#""web_search_options":{}"#, "web_search_options"),
    (r#""search_parameters":{"mode":"on"}"#, "search_parameters"),
    (r#""enable_search":true"#, "enable_search"),
    (r#""guardrails":[{"block_on_error":true}]"#, "guardrails"),
    (r#""previous_response_id":"x""#, "previous_response_id"),
    (r#""mcp_servers":[{"url":"https://example.com"}]"#, "mcp_servers"),
    (r#""data_sources":[{"type":"azure_search"}]"#, "data_sources"),
    (r#""logits_processors":["os.system"]"#, "logits_processors"),
    (r#""kv_transfer_params":{"remote_host":"127.0.0.1"}"#, "kv_transfer_params"),
    (r#""ec_transfer_params":{"a":{"peer_host":"127.0.0.1"}}"#, "ec_transfer_params"),
    (r#""mm_processor_kwargs":{"max_pixels":99999999}"#, "mm_processor_kwargs"),
    (r#""custom_logit_processor":"x""#, "custom_logit_processor"),
    (r#""session_params":{"id":"x"}"#, "session_params"),
    // Two requests of one id stop some versions of vLLM, for everybody.
    (r#""request_id":"x""#, "request_id"),
    (r#""rid":"x""#, "rid"),
    // Work and prices that the count of tokens does not show, and other names of the ceiling.
    (r#""prediction":{"type":"content","content":"x"}"#, "prediction"),
    (r#""prediction":null,"prediction":{"type":"content"}"#, "prediction"),
    (r#""prompt_mode":"reasoning""#, "prompt_mode"),
    (r#""modalities":["text","audio"]"#, "modalities"),
    (r#""audio":{"voice":"alloy","format":"mp3"}"#, "audio"),
    (r#""service_tier":"priority""#, "service_tier"),
    (r#""best_of":20"#, "best_of"),
    (r#""use_beam_search":true"#, "use_beam_search"),
    (r#""ignore_eos":true"#, "ignore_eos"),
    (r#""prompt_logprobs":20"#, "prompt_logprobs"),
    (r#""logprob_token_ids":[1,2,3]"#, "logprob_token_ids"),
    (r#""return_hidden_states":true"#, "return_hidden_states"),
    (r#""min_tokens":4096"#, "min_tokens"),
    (r#""max_new_tokens":100000"#, "max_new_tokens"),
    (r#""n_predict":100000"#, "n_predict"),
    (r#""options":{"num_predict":100000}"#, "options"),
    (r#""chat_template":"{% for x in range(99999) %}x{% endfor %}""#, "chat_template"),
    (r#""chat_template_kwargs":{"chat_template":"x"}"#, "chat_template_kwargs"),
    (r#""chat_template_kwargs":{"Chat\u005ftemplate":"x"}"#, "chat_template_kwargs"),
    (r#""chat_template_kwargs":"x""#, "chat_template_kwargs"),
    (r#""chat_template_kwargs":{"tools":[{"a":1}]}"#, "chat_template_kwargs"),
    (r#""chat_template_kwargs":{"custom_tools":{"a":1}}"#, "chat_template_kwargs"),
];

/// Parts of a message that are refused, and what follows the message in the `param` of the refusal.
const REFUSED_OF_MESSAGES: [(&str, &str); 39] = [
    (r#""content":"hi","Cache_Control":{"type":"ephemeral"}"#, "Cache_Control"),
    (r#""content":"hi","tools":[{"type":"function"},{"type":"web_search"}]"#, "tools[1].type"),
    (r#""content":[{"type":"document_url","document_url":"https://example.com/1000-pages.pdf"}]"#, "content[0].type"),
    (r#""content":[{"type":"text","text":"hi"},{"type":"file","file_id":"x"}]"#, "content[1].type"),
    (r#""content":[{"type":"input_audio","input_audio":{"data":"x"}}]"#, "content[0].type"),
    (r#""content":[{"type":"video_url","video_url":{"url":"x"}}]"#, "content[0].type"),
    (r#""content":[{"type":"reference","reference_ids":[1]}]"#, "content[0].type"),
    (r#""content":[{"type":"document\u005furl","document_url":"x"}]"#, "content[0].type"),
    (r#""content":[{"document_url":"x"}]"#, "content[0].type"),
    (r#""content":[{"type":"text","type":"file"}]"#, "content[0].type"),
    (r#""content":[{"Type":"file","type":"text"}]"#, "content[0].Type"),
    (r#""content":[{"type":"text","text":"hi","iMage_url":null}]"#, "content[0].iMage_url"),
    (r#""content":"hi","content":[{"type":"file"}]"#, "content"),
    (r#""Content":[{"type":"file"}]"#, "Content"),
    // Some servers go by a part's fields, whatever its type says; a stored image is another customer's.
    (r#""content":[{"type":"text","text":"x","uuid":"u","video_url":"https://example.com"}]"#, "content[0].uuid"),
    (r#""content":[{"type":"text","text":"x","video_url":{"url":"https://example.com"}}]"#, "content[0].video_url"),
    (r#""content":[{"type":"text","text":"x","audio_url":"https://example.com"}]"#, "content[0].audio_url"),
    (r#""content":[{"type":"text","text":"x","input_audio":{"data":"x"}}]"#, "content[0].input_audio"),
    (r#""content":[{"type":"text","text":"x","prompt_embeds":"x"}]"#, "content[0].prompt_embeds"),
    (r#""content":[{"type":"text","text":"x","image_embeds":{}}]"#, "content[0].image_embeds"),
    (r#""content":[{"type":"text","text":"x","file":{"file_id":"x"}}]"#, "content[0].file"),
    (r#""content":[{"type":"text","text":"x","document_url":"https://example.com"}]"#, "content[0].document_url"),
    (r#""content":[{"type":"text","text":"x","image_url":{"url":"https://example.com"}}]"#, "content[0].image_url"),
    (r#""content":[{"type":"text","text":"x","v\u0069deo_url":"https://example.com"}]"#, "content[0].video_url"),
    (
        r#""content":[{"type":"text","text":"x","video_url":null,"video_url":"https://example.com"}]"#,
        "content[0].video_url",
    ),
    (r#""content":[{"type":"text","text":"x","cache_Control":{"type":"ephemeral"}}]"#, "content[0].cache_Control"),
    (r#""content":[{"type":"thinking","thinking":"x"}]"#, "content[0].type"),
    (r#""content":[{"type":"refusal","refusal":"x"}]"#, "content[0].type"),
    (r#""content":[{"type":"text","Text":"x"}]"#, "content[0].Text"),
    (r#""content":[{"type":"text","te\u0078t":"x","text":"y"}]"#, "content[0].text"),
    (r#""content":[{"type":"text","text":"x","a\ud800":1}]"#, "content[0]"),
    (r#""content":[{"type":"image_url","image_url":{"url":"data:,x"},"uuid":"u"}]"#, "content[0].uuid"),
    (r#""content":[{"type":"image_url","image_url":{"url":"data:,x"},"text":"x"}]"#, "content[0].text"),
    (r#""content":[{"type":"image_url","image_url":{"url":"data:,x"},"IMAGE_URL":"x"}]"#, "content[0].IMAGE_URL"),
    (r#""content":[{"type":"image_url","image_url":{"url":"data:,x","file_id":"x"}}]"#, "content[0].image_url.file_id"),
    (r#""content":[{"type":"image_url","image_url":{"url":"data:,x","URL":"x"}}]"#, "content[0].image_url.URL"),
    (r#""content":[{"type":"image_url","image_url":{"url":"a","u\u0072l":"b"}}]"#, "content[0].image_url.url"),
    (r#""ROLE":"system""#, "ROLE"),
    (r#""audio":{"id":"audio_abc"}"#, "audio"),
];

/// Parts of a message that pass.
const PASSED_OF_MESSAGES: [&str; 3] = [
    r#""content":[{"type":"text","text":"video_url"},{"type":"te\u0078t","t\u0065xt":"x"}]"#,
    r#""content":[{"type":"image_url","image_url":{"url":"data:,x","detail":"low"}},{"type":"image_url","image_url":"data:,x"}]"#,
    // Clients that write out every field that a part could have.
    r#""content":[{"type":"text","text":"x","image_url":null,"uuid":null},{"type":"image_url","text":null,"image_url":{"url":"data:,x","detail":null}}]"#,
];

/// Fields that pass, because they cost and reach no more than tokens.
const PASSED: [&str; 16] = [
    r#""temperature":0.50,"top_p":1e0,"seed":123456789012345678901234567890"#,
    r#""stop":["a"],"presence_penalty":1,"frequency_penalty":1,"logit_bias":{"1":2}"#,
    r#""logprobs":true,"top_logprobs":5"#,
    r#""response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"models":[]}}}"#,
    r#""tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","parallel_tool_calls":false"#,
    r#""tools":[{"type":"func\u0074ion","function":{"name":"web_search"}}]"#,
    r#""tools":[{"type":"function","function":{"name":"f","strict":true},"web_search":null}]"#,
    r#""tool_choice":{"type":"function","function":{"name":"f"}}"#,
    r#""user":"models","reasoning_effort":"low","verbosity":"low","prompt_cache_key":"x""#,
    r#""top_k":5,"min_p":0.1,"repetition_penalty":1.1,"guided_json":{}"#,
    r#""chat_template_kwargs":{"enable_thinking":false}"#,
    r#""modalities":["text"],"service_tier":"auto""#,
    r#""prediction":null,"audio":null,"metadata":null,"web_search_options":null"#,
    r#""x_unknown":{"models":["a"],"MODEL":1},"x_unknown":2"#,
    r#""best_of_":1,"models2":1,"modèle":1"#,
    r#""n":16,"max_tokens":1"#,
];

fn body(fields: &str) -> String {
    format!(r#"{{"model":"svc/gpt-oss-20b","messages":[{{"role":"user","content":"Hi?"}}],{fields}}}"#)
}

#[tokio::test]
async fn what_reaches_beyond_tokens_never_gets_to_the_provider() {
    let gateway = Gateway::start().await;
    // A model that sees images.
    let of_message =
        |fields: &str| format!(r#"{{"model":"svc/mistral-small","messages":[{{"role":"user",{fields}}}]}}"#);
    let of_messages = REFUSED_OF_MESSAGES.map(|(fields, param)| (of_message(fields), format!("messages[0].{param}")));
    let refused = REFUSED.map(|(fields, param)| (body(fields), param.to_owned()));
    for (body, param) in refused.into_iter().chain(of_messages) {
        let error = gateway.post(&*body).await.assert_openai_error(400, "invalid_value");
        assert_eq!((&error["param"], &error["type"]), (&param.into(), &"invalid_request_error".into()), "{body}");
    }
    assert!(gateway.provider.asked().is_empty());
    let of_messages = PASSED_OF_MESSAGES.map(|fields| (of_message(fields), fields));
    let passed = PASSED.map(|fields| (body(fields), fields));
    for (body, fields) in passed.into_iter().chain(of_messages) {
        gateway.post(body).await.assert_status(200);
        let sent = gateway.provider.last_asked().text;
        assert!(sent.contains(fields), "{fields} in {sent}");
    }
    assert_eq!(gateway.provider.asked().len(), PASSED.len() + PASSED_OF_MESSAGES.len());
}
