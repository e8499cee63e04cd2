"""openai-python at the gateway: embeddings and completions of prompts, with models of several providers."""
import json
import os

import openai

client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"])
embedders, fillers = json.loads(os.environ["EMBEDDERS"]), json.loads(os.environ["FILLERS"])

for model in embedders:
    # It asks for base64 by itself, and decodes it.
    for extra in [{}, {"encoding_format": "float"}]:
        answer = client.embeddings.create(model=model, input=["a", "b"], user="u", **extra)
        assert answer.model == model and answer.usage.prompt_tokens == 6, answer
        assert [one.embedding for one in answer.data] == [[0.0, -0.25, -0.25, -0.25], [1.0, -0.25, -0.25, -0.25]], answer
    assert len(client.embeddings.create(model=model, input="a", dimensions=8).data[0].embedding) == 8
    assert len(client.embeddings.create(model=model, input=[[1, 2], [3]]).data) == 2
    assert len(client.embeddings.create(model=model, input=[1, 2, 3]).data) == 1

for model in fillers:
    request = {"model": model, "prompt": "def f(n):\n    ", "suffix": "\n\nprint(f(2))", "max_tokens": 32, "seed": 1, "user": "u"}
    answer = client.completions.create(**request, stop=["\n\n"])
    assert (answer.object, answer.model) == ("text_completion", model), answer
    assert answer.choices[0].text == "return n - 1" and answer.usage.total_tokens == 8, answer
    text, usage = "", None
    for chunk in client.completions.create(**request, stream=True):
        assert (chunk.object, chunk.model) == ("text_completion", model), chunk
        text += "".join(choice.text for choice in chunk.choices)
        usage = chunk.usage or usage
    assert text == "return n - 1" and usage.total_tokens == 8, (text, usage)

for model, call in [
    (fillers[0], lambda model: client.embeddings.create(model=model, input="a")),
    (embedders[0], lambda model: client.completions.create(model=model, prompt="a")),
    (embedders[0], lambda model: client.chat.completions.create(model=model, messages=[{"role": "user", "content": "a"}])),
]:
    try:
        call(model)
    except openai.BadRequestError as error:
        assert (error.code, error.param) == ("invalid_value", "model"), error
    else:
        raise AssertionError(f"{model} is asked at an endpoint that it does not have")

print("all is well")
