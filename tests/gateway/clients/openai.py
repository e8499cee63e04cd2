"""openai-python at the gateway: what its users do, and what it makes of errors."""
import os

import openai

MODEL = "svc/gpt-oss-20b"
HELLO = [{"role": "user", "content": "hello"}]
WEATHER = [{"role": "user", "content": "What is the weather?"}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]
client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"])


def fails(kind, status, code, **fields):
    try:
        client.chat.completions.create(**{"model": MODEL, "messages": HELLO, **fields})
    except kind as error:
        assert (error.status_code, error.code) == (status, code), error
        assert error.request_id.startswith("req_"), error.request_id
    else:
        raise AssertionError(f"no {kind}")


ids = [model.id for model in client.models.list()]
assert len(ids) == 8 and MODEL in ids, ids
model = client.models.retrieve("svc/mistral-small")
assert (model.owned_by, model.pricing["input"]) == ("Mistral AI", 15), model

completion = client.chat.completions.create(model=MODEL, messages=HELLO, max_completion_tokens=100, seed=7)
assert completion.model == MODEL and completion.choices[0].message.content == "Hello from the mock!", completion
assert completion.usage.total_tokens > 0, completion

raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO)
assert int(raw.headers["x-ratelimit-limit-requests"]) > 0 and raw.headers["x-ratelimit-reset-tokens"], raw.headers
assert raw.parse().choices[0].message.content == "Hello from the mock!"

for options in [{}, {"stream_options": {"include_usage": True}}]:
    words, usage = "", None
    for chunk in client.chat.completions.create(model=MODEL, messages=HELLO, stream=True, **options):
        assert chunk.model == MODEL, chunk
        words += "".join(choice.delta.content or "" for choice in chunk.choices)
        usage = chunk.usage
    assert words == "Hello from the mock!" and usage.total_tokens > 0, (words, usage)

with client.chat.completions.with_streaming_response.create(model=MODEL, messages=HELLO, stream=True) as response:
    lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]", lines

call = client.chat.completions.create(model=MODEL, messages=WEATHER, tools=TOOLS).choices[0].message.tool_calls[0]
assert (call.function.name, call.function.arguments) == ("get_weather", '{"city":"Zürich"}'), call
arguments = ""
for chunk in client.chat.completions.create(model=MODEL, messages=WEATHER, tools=TOOLS, stream=True):
    for choice in chunk.choices:
        arguments += "".join(call.function.arguments or "" for call in choice.delta.tool_calls or [])
assert arguments == '{"city":"Zürich"}', arguments

fails(openai.NotFoundError, 404, "model_not_found", model="gpt-4o")
fails(openai.BadRequestError, 400, "invalid_value", max_tokens=4097)
fails(openai.APIStatusError, 413, "request_too_large", user="x" * 70_000)
client = client.with_options(api_key=os.environ["CLI_TOKEN"])
fails(openai.AuthenticationError, 401, "invalid_api_key")
print("all is well")
