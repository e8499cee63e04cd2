"""openai-python at a gateway whose provider streams in odd ways. What came of each stream is printed."""
import json
import os

import openai

REQUEST = {"model": "svc/gpt-oss-20b", "messages": [{"role": "user", "content": "hello"}]}
client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0)
heard = []
for _ in range(int(os.environ["COUNT"])):
    words, tokens, error = "", None, None
    try:
        for chunk in client.chat.completions.create(**REQUEST, stream=True):
            words += "".join(choice.delta.content or "" for choice in chunk.choices)
            tokens = chunk.usage.completion_tokens if chunk.usage else tokens
    except Exception as thrown:
        error = getattr(thrown, "code", None) or repr(thrown)
    heard.append({"words": words, "tokens": tokens, "error": error})
print(json.dumps({"version": openai.__version__, "heard": heard}))
