/** Which rows the table shows, in which order. */
import type { Calls } from '../data/calls.ts';
import { type ColumnData, numeric, textOf, type Value } from '../data/column.ts';
import type { Rows } from '../data/rows.ts';

export interface Query {
  /** Words that must all occur in a row. */
  readonly text: string;
  /** Marks of calls; null for all. */
  readonly marks: ReadonlySet<string> | null;
  readonly range: { readonly column: number; readonly low: number | null; readonly high: number | null } | null;
  readonly sort: { readonly column: number; readonly isDescending: boolean } | null;
}

export const EVERYTHING: Query = { text: '', marks: null, range: null, sort: null };

/** Numbers of rows; null if all of them in their own order. */
export async function rowsFor(
  rows: Rows,
  calls: Calls,
  searched: readonly number[],
  query: Query,
): Promise<Uint32Array | null> {
  const tests: ((row: number) => boolean)[] = [];
  const words = query.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length > 0) {
    const columns = await Promise.all(searched.map((column) => rows.whole(column)));
    tests.push(...words.map((word) => containsWord(columns, word)));
  }
  if (query.marks) {
    const callOf = callOfRows(calls, rows.length);
    const isWanted = Uint8Array.from({ length: calls.length }, (_, call) =>
      query.marks?.has(calls.mark(call)) ? 1 : 0,
    );
    tests.push((row) => isWanted[callOf[row] ?? -1] === 1);
  }
  if (query.range) {
    const { column, low, high } = query.range;
    const data = await rows.whole(column);
    tests.push((row) => isInRange(data.at(row), low, high));
  }
  if (tests.length === 0 && !query.sort) return null;
  const found = new Uint32Array(rows.length);
  let count = 0;
  for (let row = 0; row < rows.length; row += 1) {
    if (!tests.every((test) => test(row))) continue;
    found[count] = row;
    count += 1;
  }
  const kept = found.subarray(0, count);
  return query.sort ? sorted(kept, await rows.whole(query.sort.column), query.sort.isDescending) : kept;
}

/** The call of every row; -1 where a row belongs to none. */
export function callOfRows(calls: Calls, count: number): Int32Array {
  const callOf = new Int32Array(count).fill(-1);
  for (let call = 0; call < calls.length; call += 1) callOf.fill(call, ...calls.rowsOf(call));
  return callOf;
}

function containsWord(columns: readonly ColumnData[], word: string): (row: number) => boolean {
  // Names recur in many rows: each distinct value is looked at once.
  const known = new Map<Value, boolean>();
  const contains = (value: Value): boolean => {
    let found = known.get(value);
    if (found === undefined) {
      found = textOf(value).toLowerCase().includes(word);
      known.set(value, found);
    }
    return found;
  };
  return (row) => columns.some((column) => contains(column.at(row)));
}

function isInRange(value: Value, low: number | null, high: number | null): boolean {
  if (value === null) return false;
  const number = numeric(value);
  // NaN is larger than any bound, as it is in the order of rows: nobody who looks for large errors wants to lose it.
  if (Number.isNaN(number)) return typeof value === 'number' && high === null;
  return (low === null || number >= low) && (high === null || number <= high);
}

function sorted(found: Uint32Array, column: ColumnData, isDescending: boolean): Uint32Array {
  const key = sortKeys(found, column);
  const sign = isDescending ? -1 : 1;
  const isMissing = (row: number) => column.at(row) === null;
  const present = found.filter((row) => !isMissing(row));
  const missing = found.filter(isMissing);
  present.sort((a, b) => sign * ((key.get(column.at(a)) ?? 0) - (key.get(column.at(b)) ?? 0)) || a - b);
  const all = new Uint32Array(found.length);
  all.set(present);
  all.set(missing, present.length);
  return all;
}

/** The place of each distinct value: numbers, infinity, NaN, then texts. */
function sortKeys(found: Uint32Array, column: ColumnData): Map<Value, number> {
  const distinct = new Set<Value>();
  for (const row of found) distinct.add(column.at(row));
  const numbers: number[] = [];
  const texts: string[] = [];
  for (const value of distinct) {
    if (typeof value === 'number') numbers.push(value);
    else if (value !== null) texts.push(value);
  }
  numbers.sort((a, b) => (Number.isNaN(a) ? 1 : Number.isNaN(b) ? -1 : a - b));
  const collator = new Intl.Collator('en', { numeric: true });
  texts.sort(collator.compare);
  return new Map([...numbers, ...texts].map((value, place) => [value, place]));
}
