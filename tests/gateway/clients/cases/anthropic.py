from pydantic import BaseModel

TOOLS = [{"name": "get_weather", "input_schema": PARAMETERS}]


class City(BaseModel):
    city: str
    rivers: int


def asked(words, **fields):
    return {"max_tokens": 1000, "messages": [{"role": "user", "content": words}], **fields}


def used(*messages):
    prompt = [[usage.input_tokens, usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0]
              for usage in (message.usage for message in messages)]
    return [sum(map(sum, prompt)), sum(message.usage.output_tokens for message in messages)]


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def call_of(message):
    [call] = [block for block in message.content if block.type == "tool_use"]
    return [call.name, call.input]


def plain(variables, model, words=HELLO):
    message = variables["client"].messages.create(model=model, **asked(words))
    return said(text(message), usage=used(message))


def streamed(variables, model):
    with variables["client"].messages.stream(model=model, **asked(HELLO)) as stream:
        words = "".join(stream.text_stream)
        return said(words, usage=used(stream.get_final_message()))


def tools(variables, model):
    message = variables["client"].messages.create(model=model, **asked(WEATHER, tools=TOOLS))
    return said(call=call_of(message), usage=used(message))


def streamed_tools(variables, model):
    with variables["client"].messages.stream(model=model, **asked(WEATHER, tools=TOOLS)) as stream:
        message = stream.get_final_message()
    return said(call=call_of(message), usage=used(message))


def turns(variables, model):
    request, answers, words = asked(WEATHER, tools=TOOLS), [], []
    for turn in range(3):
        message = variables["client"].messages.create(model=model, **request)
        answers.append(message)
        request["messages"].append({"role": "assistant", "content": message.content})
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": "sunny"}
                   for block in message.content if block.type == "tool_use"]
        words += [] if results else [text(message)]
        request["messages"].append({"role": "user", "content": results or HELLO})
    return said(" ".join(words), usage=used(*answers))


def structured(variables, model):
    message = variables["client"].messages.parse(model=model, output_format=City, **asked(DESCRIBE))
    return said(value=message.parsed_output.model_dump(), usage=used(message))


def cancelled(variables, model):
    with variables["client"].messages.stream(model=model, **asked(STORY)) as stream:
        for words in stream.text_stream:
            return said(words.strip())


def refused(variables, model):
    return plain(variables, model, "Refuse this.")


def overflow(variables, model):
    return plain(variables, model, "Overflow.")


def fault(thrown):
    return {"status": thrown.status_code, "code": thrown.type, "message": thrown.body["error"]["message"]}


drive([plain, streamed, tools, streamed_tools, turns, structured, cancelled, refused, overflow], fault)
