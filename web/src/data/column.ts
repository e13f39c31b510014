/** Columns of values, as they are stored: see payload.ts. */
import { ColumnKind, type Dictionary } from '../payload.ts';
import { PartError } from './parts.ts';

export type Value = string | number | null;

/** Values of one column. */
export interface ColumnData {
  readonly length: number;
  /** null where the value is missing. */
  at(index: number): Value;
}

/** Without bytes, all `length` values are missing. */
export function decodeColumn(name: string, bytes: Uint8Array | null, missingLength: number): ColumnData {
  if (!bytes) return { length: missingLength, at: () => null };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 8) throw new PartError(`the column "${name}" is too short: write the page again`);
  const kind = bytes[0] as ColumnKind;
  const length = view.getUint32(4, true);
  if (kind === ColumnKind.Dictionary) return new DictionaryColumn(readDictionary(bytes.subarray(8)));
  const bitmapBytes = bytes[1] === 1 ? Math.ceil(length / 8) : 0;
  const width = kind === ColumnKind.Float32 ? 4 : 8;
  if (bytes.length < 8 + bitmapBytes + length * width) throw new PartError(`the column "${name}" is cut off`);
  const present = bitmapBytes ? bytes.subarray(8, 8 + bitmapBytes) : null;
  const joined = untransposed(bytes.subarray(8 + bitmapBytes), length, width);
  return new NumberColumn(width === 4 ? new Float32Array(joined) : new Float64Array(joined), present);
}

/** Several chunks as one column; all but the last have the same length. */
export function joinChunks(chunks: readonly ColumnData[], chunkRows: number): ColumnData {
  const only = chunks[0];
  if (only && chunks.length === 1) return only;
  return {
    length: chunks.reduce((sum, chunk) => sum + chunk.length, 0),
    at: (index) => chunks[Math.floor(index / chunkRows)]?.at(index % chunkRows) ?? null,
  };
}

/** A value as a number: texts that stand for numbers that are not finite count, others are NaN. */
export function numeric(value: Value | undefined): number {
  if (typeof value === 'number') return value;
  if (value === 'Infinity') return Infinity;
  if (value === '-Infinity') return -Infinity;
  return NaN;
}

/** A value for people or for a filter. */
export function textOf(value: Value): string {
  return value === null ? '' : String(value);
}

function readDictionary(bytes: Uint8Array): Dictionary {
  return JSON.parse(new TextDecoder().decode(bytes)) as Dictionary;
}

/** Bytes are stored position by position, since neighbours then compress better. */
function untransposed(bytes: Uint8Array, count: number, width: number): ArrayBuffer {
  const joined = new Uint8Array(count * width);
  for (let position = 0; position < width; position += 1) {
    const from = position * count;
    for (let index = 0; index < count; index += 1) joined[index * width + position] = bytes[from + index] ?? 0;
  }
  return joined.buffer;
}

class DictionaryColumn implements ColumnData {
  readonly #values: readonly Value[];
  readonly #codes: readonly number[];

  constructor({ values, codes }: Dictionary) {
    this.#values = values.map((value) => (isNotFinite(value) ? numeric(value) : value));
    this.#codes = codes;
  }

  get length(): number {
    return this.#codes.length;
  }

  at(index: number): Value {
    return this.#values[this.#codes[index] ?? -1] ?? null;
  }
}

function isNotFinite(value: Value): boolean {
  return value === 'NaN' || value === 'Infinity' || value === '-Infinity';
}

class NumberColumn implements ColumnData {
  constructor(
    readonly numbers: Float64Array | Float32Array,
    readonly present: Uint8Array | null,
  ) {}

  get length(): number {
    return this.numbers.length;
  }

  at(index: number): Value {
    if (this.present && !((this.present[index >> 3] ?? 0) & (1 << (index & 7)))) return null;
    return this.numbers[index] ?? null;
  }
}
