// The API's description, as far as the reference shows it.

import { Problem } from '#lib/api/problem.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;
const PATH = '/openapi.json';

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  description: string;
}

/** A field of a body, under its path: `domain.status.state`. */
export interface Field {
  name: string;
  type: string;
  required: boolean;
  description: string;
}

export interface Operation {
  /** Unique on the page, and the part of the address after `#`. */
  id: string;
  method: string;
  path: string;
  tag: string;
  summary: string;
  description: string;
  parameters: Parameter[];
  /** A body to begin with, when it takes one in JSON. */
  body: string | undefined;
  /** The fields of that body, and of the answer when it succeeds. */
  takes: Field[];
  gives: Field[];
  answers: { status: string; description: string }[];
}

export const reference = (): Resource<Operation[]> =>
  resource(PATH, async () => {
    const answer = await fetch(`/api${PATH}`);
    const body: unknown = await answer.json().catch(() => undefined);
    if (!answer.ok) throw Problem.of(answer, body);
    return operations(body);
  });

type Json = Record<string, unknown>;
const object = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {});
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const list = (value: unknown): unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);

/** Every operation of an OpenAPI document, in its order. */
export function operations(document: unknown): Operation[] {
  const found: Operation[] = [];
  for (const [path, item] of Object.entries(object(object(document)['paths']))) {
    for (const method of METHODS) {
      const operation = object(object(item)[method]);
      if (Object.keys(operation).length === 0) continue;
      found.push({
        id: `${method}${path.replace(/[^a-z0-9]+/gi, '-')}`,
        method: method.toUpperCase(),
        path,
        tag: text(list(operation['tags'])[0]) || 'Other',
        summary: text(operation['summary']),
        description: text(operation['description']),
        parameters: list(operation['parameters']).map(parameter),
        body: example(document, operation),
        takes: fields(document, content(operation['requestBody'])),
        gives: fields(document, content(succeeded(document, operation))),
        answers: Object.entries(object(operation['responses'])).map(([status, answer]) => ({
          status,
          description: text(resolved(document, answer)['description']),
        })),
      });
    }
  }
  return found;
}

function parameter(value: unknown): Parameter {
  const found = object(value);
  const place = text(found['in']);
  return {
    name: text(found['name']),
    in: place === 'path' || place === 'header' ? place : 'query',
    required: found['required'] === true,
    description: text(found['description']),
  };
}

/** What a reference stands for. */
function resolved(document: unknown, value: unknown): Json {
  const reference = text(object(value)['$ref']);
  if (!reference.startsWith('#/')) return object(value);
  const parts = reference.slice(2).split('/');
  return object(parts.reduce<unknown>((part, key) => object(part)[key], document));
}

const content = (body: unknown): unknown =>
  object(object(object(body)['content'])['application/json'])['schema'];

function succeeded(document: unknown, operation: Json): Json {
  const found = Object.entries(object(operation['responses'])).find(([status]) => status.startsWith('2'));
  return resolved(document, found?.[1]);
}

/** How deep fields are followed. */
const DEEPEST = 2;

/** The fields of a schema, those of objects within it under their path. */
function fields(document: unknown, schema: unknown, above = '', depth = 0): Field[] {
  const found = shape(document, schema);
  const required = list(found['required']);
  return Object.entries(object(found['properties'])).flatMap(([key, value]) => {
    const [inner, isList] = element(document, value);
    const name = `${above}${key}`;
    const field = {
      name,
      type: typeOf(document, value),
      required: required.includes(key),
      description: text(object(value)['description']) || text(described(value)) || text(inner['description']),
    };
    const within = depth < DEEPEST ? fields(document, inner, `${name}${isList ? '[]' : ''}.`, depth + 1) : [];
    return [field, ...within];
  });
}

/** The schema itself: references followed, what may be null without its null, and all parts of a whole together. */
function shape(document: unknown, schema: unknown): Json {
  const found = resolved(document, schema);
  const parts = list(found['allOf']).map((part) => shape(document, part));
  if (parts.length > 0) {
    const properties = Object.assign({}, ...parts.map((part) => object(part['properties'])));
    return { ...found, properties, required: parts.flatMap((part) => list(part['required'])) };
  }
  const either = list(found['oneOf'] ?? found['anyOf']).filter((part) => object(part)['type'] !== 'null');
  return either.length === 1 ? shape(document, either[0]) : found;
}

/** The description that stands beside a reference within a choice. */
const described = (value: unknown): unknown =>
  list(object(value)['oneOf'] ?? object(value)['anyOf'])
    .map((part) => object(part)['description'])
    .find(Boolean);

/** The schema of a list's elements, or the schema itself. */
function element(document: unknown, value: unknown): [Json, isList: boolean] {
  const found = shape(document, value);
  return found['items'] ? [shape(document, found['items']), true] : [found, false];
}

function typeOf(document: unknown, value: unknown): string {
  const [found, isList] = element(document, value);
  const values = list(found['enum']);
  const types = list(found['type']).concat(Array.isArray(found['type']) ? [] : [found['type']]);
  const plain = types.map(text).filter((type) => type && type !== 'null');
  const type =
    values.length > 0 ? values.map((one) => JSON.stringify(one)).join(' | ') : plain.join(' or ') || 'any';
  const either = list(object(value)['oneOf'] ?? object(value)['anyOf']);
  const mayBeNull = types.includes('null') || either.some((part) => object(part)['type'] === 'null');
  return `${isList ? `list of ${type}` : type}${mayBeNull ? ' or null' : ''}`;
}

function example(document: unknown, operation: Json): string | undefined {
  const content = object(object(object(operation['requestBody'])['content'])['application/json']);
  if (!content['schema']) return undefined;
  return JSON.stringify(content['example'] ?? sample(document, content['schema'], 0), null, 2);
}

/** A value of the schema's shape, to be filled in. */
function sample(document: unknown, schema: unknown, depth: number): unknown {
  const found = object(schema);
  if (depth > 4) return null;
  const reference = text(found['$ref']);
  if (reference) {
    const name = reference.split('/').pop() ?? '';
    return sample(document, object(object(object(document)['components'])['schemas'])[name], depth + 1);
  }
  const either = list(found['oneOf']).concat(list(found['anyOf']));
  if (either.length > 0) return sample(document, either[0], depth + 1);
  const all = list(found['allOf']);
  if (all.length > 0)
    return Object.assign({}, ...all.map((part) => object(sample(document, part, depth + 1))));
  const values = list(found['enum']);
  if (values.length > 0) return values[0];
  const type = list(found['type'])[0] ?? found['type'];
  if (type === 'object' || found['properties']) {
    const entries = Object.entries(object(found['properties']));
    return Object.fromEntries(entries.map(([key, value]) => [key, sample(document, value, depth + 1)]));
  }
  if (type === 'array') return [];
  if (type === 'integer' || type === 'number') return 0;
  if (type === 'boolean') return false;
  return type === 'string' ? '' : null;
}

/** The address of a call with its parameters, below `/api`. */
export function address(operation: Operation, values: Record<string, string>): string {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values[name] ?? ''),
  );
  const query = new URLSearchParams();
  for (const { name, in: place } of operation.parameters) {
    const value = values[name];
    if (place === 'query' && value) query.set(name, value);
  }
  return query.size > 0 ? `${path}?${query}` : path;
}
