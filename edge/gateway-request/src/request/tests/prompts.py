"""Writes prompts.jsonl: requests, and how many tokens their prompts have by the tokenizers of the shipped models.

Those are in packages: pip install bpe-openai==0.1.4 mistral-common==1.13.1 dashscope==2.0.2 tiktoken==0.14.0, and
llama-models==0.3.0 with --no-deps. Mistral's requests are encoded as Mistral does; for the others the model's chat template is
written down here. Run in this folder.
"""

import base64
import importlib.metadata
import json
import random
import unicodedata

import bpe_openai
import tiktoken
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer


def file(package, end):
    return next(path.locate() for path in importlib.metadata.files(package) if str(path).endswith(end))


def encoding(package, end, digits):
    lines = (line.split() for line in open(file(package, end), "rb").read().splitlines() if line)
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding(end, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


O200K = bpe_openai.get_encoding("o200k_base")
QWEN = encoding("dashscope", "qwen.tiktoken", r"\p{N}")
LLAMA = encoding("llama-models", "llama_models/llama3/tokenizer.model", r"\p{N}{1,3}")
TEKKEN = MistralTokenizer.from_file(str(file("mistral-common", "tekken_240911.json")))


def content(message):
    parts = message["content"] or ""
    return parts if isinstance(parts, str) else "".join(part["text"] for part in parts)


def calls(message):
    """The calls of tools in a message, as servers give them to templates: with arguments that they have read."""
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])]


def mistral(body):
    request = ChatCompletionRequest(model="m", messages=body["messages"], tools=body.get("tools"))
    return len(TEKKEN.encode_chat_completion(request).tokens)


def gpt_oss(body):
    count = lambda text: len(O200K.encode(text))
    system = (
        "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: 2026-11-22\n\n"
        "Reasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message."
    )
    tokens = 4 + count(system) + 3
    if body.get("tools"):
        tokens += 4 + count("\nCalls to these tools must go to the commentary channel: 'functions'.# Tools\n\n## functions\n\nnamespace functions {\n\n")
        for tool in body["tools"]:
            function = tool["function"]
            text = f"// {function.get('description', '')}\ntype {function['name']} = (_: {{\n"
            for name, schema in function["parameters"].get("properties", {}).items():
                text += f"// {schema.get('description', '')}\n{name}?: {json.dumps(schema, ensure_ascii=False)},\n"
            tokens += count(text + "}) => any;\n\n")
    for message in body["messages"]:
        tokens += 4 + count(content(message))
        tokens += sum(6 + count(f"functions.{name}json{json.dumps(arguments, ensure_ascii=False)}") for name, arguments in calls(message))
    return tokens


def llama(body):
    count = lambda text: len(LLAMA.encode_ordinary(text))
    tokens = 8 + count("Cutting Knowledge Date: December 2023\nToday Date: 22 Nov 2026\n\n")
    if body.get("tools"):
        tokens += count(
            "Given the following functions, please respond with a JSON for a function call with its proper arguments that best "
            'answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": dictionary of argument '
            "name and its value}.Do not use variables.\n\n"
        )
        tokens += sum(count(json.dumps(tool, indent=4, ensure_ascii=False) + "\n\n") for tool in body["tools"])
    for message in body["messages"]:
        said = content(message)
        tokens += 5 + count(json.dumps(said, ensure_ascii=False) if message["role"] == "tool" else said)
        for name, arguments in calls(message):
            tokens += count(f'{{"name": "{name}", "parameters": {json.dumps(arguments, ensure_ascii=False)}}}')
    return tokens


def qwen(body):
    count = lambda text: len(QWEN.encode_ordinary(unicodedata.normalize("NFC", text)))
    tokens = 3
    if body.get("tools"):
        tokens += 5 + count(
            "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
            "signatures within <tools></tools> XML tags:\n<tools>\n</tools>\n\nFor each function call, return a json object with "
            'function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, '
            '"arguments": <args-json-object>}\n</tool_call>'
        )
        tokens += sum(count("\n" + json.dumps(tool, ensure_ascii=False)) for tool in body["tools"])
    for message in body["messages"]:
        said = content(message)
        tokens += 5 + count(f"<tool_response>\n{said}\n</tool_response>" if message["role"] == "tool" else said)
        for name, arguments in calls(message):
            call = f'{{"name": "{name}", "arguments": {json.dumps(arguments, ensure_ascii=False)}}}'
            tokens += count(f"\n<tool_call>\n{call}\n</tool_call>")
    return tokens


def letters(*ranges):
    return [chr(code) for first, last in ranges for code in range(first, last + 1)]


KINDS = {
    "digits": "0123456789",
    "hex": "0123456789abcdef",
    "chinese": letters((0x4E00, 0x9FA5)),
    "japanese and korean": letters((0x3041, 0x3096), (0x30A1, 0x30FA), (0xAC00, 0xD7A3)),
    "emoji": letters((0x1F300, 0x1F64F), (0x1F900, 0x1F9FF)) + ["\u200d", "\ufe0f"],
    "rare scripts": letters((0x710, 0x72F), (0x1200, 0x1248), (0xA000, 0xA08C), (0x10330, 0x1034A)),
    "decomposed": letters((0x958, 0x95F), (0x1D15E, 0x1D164), (0xFB1D, 0xFB1D), (0xFB2A, 0xFB36)),
    "letters": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "punctuation": "!@#$%^&*(){}[]<>?/\\|~`'\";:,.",
    "control": letters((1, 31)),
    "space": " \t\n\r",
}
MODELS = {
    "svc/mistral-small": mistral,
    "svc/gpt-oss-20b": gpt_oss,
    "svc/llama-3.3-70b-instruct": llama,
    "svc/qwen3-32b": qwen,
}


def text(kind, length):
    return "".join(random.choice(KINDS[kind]) for _ in range(length))


def tool(members):
    names = [text("letters", 3) for _ in range(members)]
    properties = {name: random.choice([{}, {"type": "string"}, {"type": "string", "enum": ["a", "1"]}]) for name in names}
    return {"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object", "properties": properties}}}


def requests():
    for kind in KINDS:
        for length in (1, 40, 160):
            yield {"messages": [{"role": "user", "content": text(kind, length)}]}
    yield {"messages": [{"role": "user", "content": [{"type": "text", "text": text(kind, 5)} for kind in KINDS]}]}
    yield {"messages": [{"role": role, "content": "1"} for role in ["user", "assistant"] * 10 + ["user"]]}
    for members in (0, 1, 2, 5, 20):
        yield {"messages": [{"role": "user", "content": "hi"}], "tools": [tool(members)] * (1 + members % 3)}
    nested = {"type": "object", "properties": {}}
    for _ in range(12):
        nested = {"type": "object", "properties": {"a": nested, "b": {"enum": [1, 2, 3]}}}
    function = {"name": "f", "description": "", "parameters": nested}
    yield {"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": function}]}
    # JSON whose numbers are printed with spaces between them, and in full.
    for number in ("1", "1e15"):
        numbers = "[" + ",".join([number] * 150) + "]"
        yield {"messages": [{"role": "user", "content": "hi"}, *called(f'{{"a":{numbers}}}', numbers)]}
        function = {"name": "f", "description": "", "parameters": {"enum": Numbers(numbers)}}
        yield {"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": function}]}


    base = [chr(code) for code in range(128) if chr(code).isalnum()] + ["+", "/"]
    marks = letters((0x300, 0x36F))
    for length in (1, 40, 160):
        yield {"messages": [{"role": "user", "content": "".join(random.choice(base) for _ in range(length))}]}
        yield {"messages": [{"role": "user", "content": "".join("e" + random.choice(marks) for _ in range(length))}]}


class Numbers(list):
    """Numbers that a client writes as they are in `text`."""

    def __init__(self, text):
        super().__init__(json.loads(text))
        self.text = text


def called(arguments, result):
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "f", "content": result},
    ]


def as_client(body, ascii):
    """What a client sends that leaves no room between fields and writes numbers as short as can be."""
    text = json.dumps(body, ensure_ascii=ascii, separators=(",", ":"))
    for tool in body.get("tools", []):
        numbers = tool["function"]["parameters"].get("enum")
        if isinstance(numbers, Numbers):
            text = text.replace(json.dumps(numbers, separators=(",", ":")), numbers.text)
    return text


random.seed(1)
with open("prompts.jsonl", "w") as out:
    for number, request in enumerate(requests()):
        for model, tokens in MODELS.items():
            body = as_client({"model": model, **request}, number % 2 == 0)
            out.write(json.dumps({"tokens": tokens(request), "body": body}, ensure_ascii=False) + "\n")
