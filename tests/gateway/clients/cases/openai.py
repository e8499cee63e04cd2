from pydantic import BaseModel

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]


class City(BaseModel):
    city: str
    rivers: int


def user(words):
    return {"role": "user", "content": words}


def used(*completions):
    usages = [completion.usage for completion in completions]
    return [sum(usage.prompt_tokens for usage in usages), sum(usage.completion_tokens for usage in usages)]


def plain(variables, model, words=HELLO):
    completion = variables["client"].chat.completions.create(model=model, messages=[user(words)])
    return said(completion.choices[0].message.content, usage=used(completion))


def streamed(variables, model):
    words = ""
    for chunk in variables["client"].chat.completions.create(model=model, messages=[user(HELLO)], stream=True):
        words += "".join(choice.delta.content or "" for choice in chunk.choices)
        last = chunk
    return said(words, usage=used(last))


def tools(variables, model):
    completion = variables["client"].chat.completions.create(model=model, messages=[user(WEATHER)], tools=TOOLS)
    [call] = completion.choices[0].message.tool_calls
    return said(call=[call.function.name, json.loads(call.function.arguments)], usage=used(completion))


def streamed_tools(variables, model):
    with variables["client"].chat.completions.stream(model=model, messages=[user(WEATHER)], tools=TOOLS) as stream:
        completion = stream.get_final_completion()
    [call] = completion.choices[0].message.tool_calls
    return said(call=[call.function.name, json.loads(call.function.arguments)], usage=used(completion))


def turns(variables, model):
    create, messages, completions, words = variables["client"].chat.completions.create, [user(WEATHER)], [], []
    for turn in range(3):
        completions.append(create(model=model, messages=messages, tools=TOOLS))
        message = completions[-1].choices[0].message
        # As a whole, and as it is: with every field that is null.
        messages.append(message.model_dump())
        for call in message.tool_calls or []:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
        if not message.tool_calls:
            words.append(message.content)
            messages.append(user(HELLO))
    return said(" ".join(words), usage=used(*completions))


def structured(variables, model):
    completion = variables["client"].chat.completions.parse(model=model, messages=[user(DESCRIBE)], response_format=City)
    return said(value=completion.choices[0].message.parsed.model_dump(), usage=used(completion))


def cancelled(variables, model):
    with variables["client"].chat.completions.create(model=model, messages=[user(STORY)], stream=True) as stream:
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                return said(chunk.choices[0].delta.content.strip())


def refused(variables, model):
    return plain(variables, model, "Refuse this.")


def overflow(variables, model):
    return plain(variables, model, "Overflow.")


def fault(thrown):
    return {"status": thrown.status_code, "code": thrown.code}


drive([plain, streamed, tools, streamed_tools, turns, structured, cancelled, refused, overflow], fault)
