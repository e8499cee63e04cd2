"""Asks each model for each case, and prints a line of JSON for each: what the client made of the answer.

A driver defines `cases` and `fault`. A case is a function of the configuration that the document shows, as a dictionary of its
variables, and of the model; it returns `said(…)`.
"""
import json
import os

MODELS = os.environ["MODELS"].split()
CONFIGURATION = os.environ["CONFIGURATION"]
HELLO = "Say hello."
WEATHER = "What is the weather in Paris?"
DESCRIBE = "Describe Paris."
STORY = "Tell a long story."
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def said(words="", call=None, usage=None, value=None):
    """What a case comes to; `usage` is the tokens of the prompts and of the answers, of all its requests together."""
    return {"words": words, "call": call, "usage": usage, "value": value}


def configured(model):
    variables = {}
    exec(CONFIGURATION.replace("svc/qwen3-coder-30b", model), variables)
    return variables


def drive(cases, fault):
    for model in MODELS:
        variables = configured(model)
        for case in cases:
            name = case.__name__
            try:
                result = case(variables, model)
            except Exception as thrown:
                result = {"error": {"class": type(thrown).__name__, **fault(thrown)}}
            print(json.dumps({"model": model, "case": name, **result}), flush=True)
