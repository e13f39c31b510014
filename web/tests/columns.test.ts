import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeColumn, joinChunks, numeric } from '../src/data/column.ts';
import { columnPart } from './support/page_file.ts';

const values = (bytes: Buffer) => {
  const column = decodeColumn('test', bytes, 0);
  return Array.from({ length: column.length }, (_, at) => column.at(at));
};

test('numbers with missing ones among them', () => {
  assert.deepEqual(values(columnPart([1.5, null, NaN, -Infinity, 0])), [1.5, null, NaN, -Infinity, 0]);
  assert.deepEqual(values(columnPart([1, 2, 3])), [1, 2, 3]);
  assert.deepEqual(values(columnPart([])), []);
});

test('texts, numbers and nothing in one column', () => {
  assert.deepEqual(values(columnPart(['a', null, 'a', 2, Infinity])), ['a', null, 'a', 2, Infinity]);
});

test('numbers of four bytes', () => {
  const bytes = Buffer.alloc(8 + 2 * 4);
  bytes[0] = 2;
  bytes.writeUInt32LE(2, 4);
  const plain = Buffer.from(new Float32Array([0.5, -3]).buffer);
  for (let at = 0; at < 8; at += 1) bytes[8 + (at % 4) * 2 + (at >> 2)] = plain[at] ?? 0;
  assert.deepEqual(values(bytes), [0.5, -3]);
});

test('a column that is not there has no values', () => {
  const column = decodeColumn('test', null, 3);
  assert.equal(column.length, 3);
  assert.equal(column.at(1), null);
});

test('a column that is cut off is refused', () => {
  const bytes = columnPart([1, 2, 3]);
  assert.throws(() => decodeColumn('test', bytes.subarray(0, bytes.length - 1), 0), /cut off/);
  assert.throws(() => decodeColumn('test', bytes.subarray(0, 4), 0), /too short/);
});

test('chunks are one column', () => {
  const whole = joinChunks([decodeColumn('a', columnPart([1, 2]), 0), decodeColumn('b', columnPart(['x']), 0)], 2);
  assert.deepEqual([whole.at(0), whole.at(1), whole.at(2), whole.length], [1, 2, 'x', 3]);
});

test('texts that stand for numbers', () => {
  assert.equal(numeric('Infinity'), Infinity);
  assert.equal(numeric('-Infinity'), -Infinity);
  assert.ok(Number.isNaN(numeric('NaN')));
  assert.ok(Number.isNaN(numeric(null)));
});
