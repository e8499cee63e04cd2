import litellm

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]


def user(words):
    return {"role": "user", "content": words}


def used(*completions):
    usages = [completion.usage for completion in completions]
    return [sum(usage.prompt_tokens for usage in usages), sum(usage.completion_tokens for usage in usages)]


def call_of(completion):
    [call] = completion.choices[0].message.tool_calls
    return [call.function.name, json.loads(call.function.arguments)]


def plain(variables, model, words=HELLO):
    completion = variables["completion"](messages=[user(words)])
    return said(completion.choices[0].message.content, usage=used(completion))


def whole(variables, **fields):
    chunks = list(variables["completion"](stream=True, stream_options={"include_usage": True}, **fields))
    return litellm.stream_chunk_builder(chunks, messages=fields["messages"])


def streamed(variables, model):
    completion = whole(variables, messages=[user(HELLO)])
    return said(completion.choices[0].message.content, usage=used(completion))


def tools(variables, model):
    completion = variables["completion"](messages=[user(WEATHER)], tools=TOOLS)
    return said(call=call_of(completion), usage=used(completion))


def streamed_tools(variables, model):
    completion = whole(variables, messages=[user(WEATHER)], tools=TOOLS)
    return said(call=call_of(completion), usage=used(completion))


def turns(variables, model):
    messages, completions, words = [user(WEATHER)], [], []
    for turn in range(3):
        completions.append(variables["completion"](messages=messages, tools=TOOLS))
        message = completions[-1].choices[0].message
        messages.append(message.model_dump())
        for call in message.tool_calls or []:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
        if not message.tool_calls:
            words.append(message.content)
            messages.append(user(HELLO))
    return said(" ".join(words), usage=used(*completions))


def structured(variables, model):
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "rivers": {"type": "integer"}},
              "required": ["city", "rivers"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "City", "schema": schema, "strict": True}}
    completion = variables["completion"](messages=[user(DESCRIBE)], response_format=form)
    return said(value=json.loads(completion.choices[0].message.content), usage=used(completion))


def cancelled(variables, model):
    stream = variables["completion"](messages=[user(STORY)], stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            # What it closes is its own generator, and not the connection: that ends with the program.
            return said(chunk.choices[0].delta.content.strip())


def refused(variables, model):
    return plain(variables, model, "Refuse this.")


def overflow(variables, model):
    return plain(variables, model, "Overflow.")


def fault(thrown):
    return {"status": thrown.status_code, "code": (getattr(thrown, "body", None) or {}).get("code")}


drive([plain, streamed, tools, streamed_tools, turns, structured, cancelled, refused, overflow], fault)
