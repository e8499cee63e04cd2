from pydantic import BaseModel


class City(BaseModel):
    city: str
    rivers: int


def used(completion):
    return [completion.usage.prompt_tokens, completion.usage.completion_tokens]


def ask(variables, model, words, **fields):
    messages = [{"role": "user", "content": words}]
    create = variables["client"].chat.completions.create_with_completion
    return create(model=model, messages=messages, response_model=City, max_retries=1, **fields)


def structured(variables, model):
    value, completion = ask(variables, model, DESCRIBE)
    return said(value=value.model_dump(), usage=used(completion))


def structured_stream(variables, model):
    messages = [{"role": "user", "content": DESCRIBE}]
    create = variables["client"].chat.completions.create_partial
    for value in create(model=model, messages=messages, response_model=City):
        pass
    return said(value=value.model_dump())


def refused(variables, model):
    return ask(variables, model, "Refuse this.")


def overflow(variables, model):
    return ask(variables, model, "Overflow.")


def fault(thrown):
    while not hasattr(thrown, "status_code"):
        thrown = thrown.__cause__ or thrown.failed_attempts[-1].exception
    return {"status": thrown.status_code, "code": thrown.code}


drive([structured, structured_stream, refused, overflow], fault)
