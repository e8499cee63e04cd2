import { expect, test } from 'vitest';
import { parseDotenv } from './dotenv.ts';

test('values are read as shells and dotenv read them', () => {
  const text =
    '# keys\nexport A=1\r\nB = two words # said\nC="x\\ny # z"\nD=\'a"b\'\nE=\nA=2\nURL=https://a.b/?c=d#e\n';
  const { variables, problems } = parseDotenv(text);
  expect(problems).toEqual([]);
  expect(Object.fromEntries(variables.map(({ key, value }) => [key, value]))).toEqual({
    A: '2',
    B: 'two words',
    C: 'x\ny # z',
    D: 'a"b',
    E: '',
    URL: 'https://a.b/?c=d#e',
  });
});

test('a remark after a quoted value is no part of it', () => {
  expect(parseDotenv('A="secret" # mine').variables).toEqual([{ key: 'A', value: 'secret' }]);
  expect(parseDotenv('A="open').problems).toEqual([{ line: 1, message: 'a quotation mark is not closed.' }]);
});

test('lines that are no variables are told by their number', () => {
  expect(parseDotenv('A=1\nnothing\n1B=2').problems.map(({ line }) => line)).toEqual([2, 3]);
});

test('a quoted value may go over several lines', () => {
  const text = 'A=1\nKEY="-----BEGIN KEY-----\nabc=\n-----END KEY-----"\nB=2';
  expect(parseDotenv(text)).toEqual({
    variables: [
      { key: 'A', value: '1' },
      { key: 'KEY', value: '-----BEGIN KEY-----\nabc=\n-----END KEY-----' },
      { key: 'B', value: '2' },
    ],
    problems: [],
  });
});
