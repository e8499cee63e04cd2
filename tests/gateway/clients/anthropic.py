"""anthropic-python at the gateway: what its users do, and what it makes of errors."""
import os

import anthropic

MODEL = "svc/gpt-oss-20b"
HELLO = [{"role": "user", "content": "hello"}]
WEATHER = [{"role": "user", "content": "What is the weather?"}]
TOOLS = [{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
client = anthropic.Anthropic(base_url=os.environ["BASE_URL"].removesuffix("/v1"), api_key=os.environ["API_KEY"])


def fails(client, kind, status, type, **fields):
    try:
        client.messages.create(**{"model": MODEL, "max_tokens": 100, "messages": HELLO, **fields})
    except kind as error:
        assert (error.status_code, error.type) == (status, type), error
        assert error.request_id.startswith("req_") and error.body["request_id"] == error.request_id, error.body
    else:
        raise AssertionError(f"no {kind}")


message = client.messages.create(model=MODEL, max_tokens=100, system="Be brief.", messages=HELLO)
assert (message.model, message.role, message.stop_reason) == (MODEL, "assistant", "end_turn"), message
assert [block.text for block in message.content] == ["Hello from the mock!"], message
assert message.id.startswith("msg_") and message.usage.input_tokens > 0 and message.usage.output_tokens > 0, message

with client.messages.stream(model=MODEL, max_tokens=100, messages=HELLO) as stream:
    assert "".join(stream.text_stream) == "Hello from the mock!"
    final = stream.get_final_message()
assert final.usage.input_tokens > 0 and final.usage.output_tokens > 0 and final.stop_reason == "end_turn", final

message = client.messages.create(model=MODEL, max_tokens=100, messages=WEATHER, tools=TOOLS)
with client.messages.stream(model=MODEL, max_tokens=100, messages=WEATHER, tools=TOOLS) as stream:
    streamed = stream.get_final_message()
for answer in [message, streamed]:
    [call] = answer.content
    assert (answer.stop_reason, call.name, call.input) == ("tool_use", "get_weather", {"city": "Zürich"}), answer
result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
turns = [*WEATHER, {"role": "assistant", "content": streamed.content},
         {"role": "user", "content": [result, {"type": "text", "text": "hello"}]}]
second = client.messages.create(model=MODEL, max_tokens=100, messages=turns, tools=TOOLS)
assert second.content[0].text == "Hello from the mock!", second

counted = client.messages.count_tokens(model=MODEL, messages=HELLO, tools=TOOLS)
assert counted.input_tokens > message.usage.input_tokens, counted

fails(client, anthropic.NotFoundError, 404, "not_found_error", model="claude-opus-5")
fails(client, anthropic.BadRequestError, 400, "invalid_request_error", max_tokens=4097)
fails(client, anthropic.APIStatusError, 413, "request_too_large", system="x" * 70_000)
fails(client.with_options(api_key=os.environ["CLI_TOKEN"]), anthropic.AuthenticationError, 401, "authentication_error")
print("all is well")
