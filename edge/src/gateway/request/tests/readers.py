"""Reads a request in each line as different parsers would, and prints what each of them takes it for."""

import json
import sys


def folded(name):
    return name.replace("\0", "").casefold()


def first(pairs):
    return dict(reversed(pairs))


def last(pairs):
    return dict(pairs)


def first_folded(pairs):
    return first([(folded(name), value) for name, value in pairs])


def last_folded(pairs):
    return last([(folded(name), value) for name, value in pairs])


def taken(body):
    n = body.get("n")
    maxima = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    contents = [message.get("content") for message in body["messages"]]
    parts = [part["type"] for content in contents if isinstance(content, list) for part in content]
    return {
        "model": body["model"],
        "completion": max(value for value in maxima if value is not None) * (1 if n is None else n),
        "stream": body.get("stream") is True,
        "usage": body.get("stream") is True and (body.get("stream_options") or {}).get("include_usage") is True,
        "store": body.get("store", False),
        "tools": sorted({tool.get("type", "function") for tool in body.get("tools") or []}),
        "parts": sorted(set(parts)),
        "images": parts.count("image_url"),
    }


for line in sys.stdin:
    print(json.dumps([taken(json.loads(line, object_pairs_hook=hook)) for hook in (first, last, first_folded, last_folded)]))
