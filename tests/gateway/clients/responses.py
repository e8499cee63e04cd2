"""openai-python's Responses API at the gateway."""
import os

import openai
from pydantic import BaseModel

MODEL = "svc/gpt-oss-20b"
TOOLS = [{"type": "function", "name": "get_weather", "strict": False, "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}]
client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0)

response = client.responses.create(model=MODEL, input="hello", instructions="Be brief.", max_output_tokens=100)
assert response.output_text == "Hello from the mock!" and response.status == "completed", response
assert response.usage.total_tokens > 0 and response.model == MODEL, response

kinds, words = [], ""
for event in client.responses.create(model=MODEL, input="hello", stream=True):
    kinds.append(event.type)
    words += event.delta if event.type == "response.output_text.delta" else ""
assert words == "Hello from the mock!" and kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds

with client.responses.stream(model=MODEL, input="hello") as stream:
    for event in stream:
        pass
    assert stream.get_final_response().output_text == "Hello from the mock!"

conversation = [{"role": "user", "content": "What is the weather?"}]
response = client.responses.create(model=MODEL, input=conversation, tools=TOOLS, store=False)
(call,) = [item for item in response.output if item.type == "function_call"]
assert (call.name, call.arguments) == ("get_weather", '{"city":"Zürich"}'), call
# The second turn, with what came back as it is.
conversation += response.output
conversation += [{"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}]
conversation += [{"role": "user", "content": "hello"}]
response = client.responses.create(model=MODEL, input=conversation, tools=TOOLS)
assert response.output_text == "Hello from the mock!", response


class City(BaseModel):
    city: str


response = client.responses.parse(model=MODEL, input="structured", text_format=City)
assert response.output_parsed == City(city="Zürich"), response

try:
    client.responses.create(model=MODEL, input="hello", previous_response_id="resp_1")
except openai.BadRequestError as error:
    assert (error.code, error.param) == ("invalid_value", "previous_response_id"), error
else:
    raise AssertionError("no error")
print("all is well")
