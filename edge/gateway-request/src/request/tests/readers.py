"""Reads a request in each line as different parsers would, and prints what each of them takes it for."""

import json
import sys
from collections import Counter


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


def typed(value, name):
    return value.get("type", name)


def by_field(value, name):
    """Takes a part or tool for what its fields say, as some servers do."""
    for field in ("image_url", "video_url", "uuid", "web_search"):
        if value.get(field) is not None:
            return field
    return typed(value, name)


def taken(body, kind_of=typed):
    n = body.get("n")
    maxima = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    contents = [message.get("content") for message in body["messages"]]
    parts = [kind_of(part, None) for content in contents if isinstance(content, list) for part in content]
    return {
        "model": body["model"],
        "completion": max(value for value in maxima if value is not None) * (1 if n is None else n),
        "stream": body.get("stream") is True,
        "usage": body.get("stream") is True and (body.get("stream_options") or {}).get("include_usage") is True,
        "store": body.get("store", False),
        "tools": [kind_of(tool, "function") for tool in body.get("tools") or []].count("function"),
        "parts": dict(Counter(parts)),
        "images": parts.count("image_url"),
    }


for line in sys.stdin:
    bodies = [json.loads(line, object_pairs_hook=hook) for hook in (first, last, first_folded, last_folded)]
    print(json.dumps([*map(taken, bodies), taken(bodies[1], by_field)]))
