"""openai-python at a gateway whose provider fails first, or half-way. What happened is printed."""
import json
import os
import time

import openai

REQUEST = {"model": "svc/gpt-oss-20b", "messages": [{"role": "user", "content": "hello"}]}
client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"])
if os.environ["CASE"] == "first":
    began = time.monotonic()
    words = client.chat.completions.create(**REQUEST).choices[0].message.content
    print(json.dumps({"words": words, "waited": time.monotonic() - began}))
else:
    words = ""
    try:
        for chunk in client.chat.completions.create(**REQUEST, stream=True):
            words += chunk.choices[0].delta.content or ""
        print(json.dumps({"words": words, "error": None}))
    except openai.APIError as error:
        print(json.dumps({"words": words, "error": error.code, "message": error.message}))
