/** The rows of a rank: chunks of columns, read when they come into view, and whole columns to sort and filter by. */
import { type Manifest, partName } from '../payload.ts';
import { type ColumnData, decodeColumn, joinChunks, type Value } from './column.ts';
import type { Parts } from './parts.ts';

export class Rows {
  readonly length: number;
  /** Why values that are in view could not be read. They are not asked for again: the server may have ended. */
  problem: string | null = null;
  readonly #chunkRows: number;
  readonly #chunks = new Map<string, ColumnData>();
  readonly #requests = new Map<string, Promise<ColumnData>>();
  /** Chunks after which `arrived` is called. */
  readonly #awaited = new Set<string>();
  readonly #whole = new Map<number, Promise<ColumnData>>();

  constructor(
    readonly parts: Parts,
    readonly manifest: Manifest,
    readonly rank: number,
    readonly arrived: () => void,
  ) {
    this.length = manifest.ranks[rank]?.rows ?? 0;
    this.#chunkRows = manifest.chunk_rows;
  }

  /** A value, or undefined while it is read; `arrived` is called then. */
  at(column: number, row: number): Value | undefined {
    const number = Math.floor(row / this.#chunkRows);
    const name = partName.rows(this.rank, column, number);
    const chunk = this.#chunks.get(name);
    if (chunk) return chunk.at(row % this.#chunkRows);
    if (!this.#awaited.has(name)) {
      this.#awaited.add(name);
      // Why it failed is in `problem`.
      this.#chunk(name).then(this.arrived, this.arrived);
    }
    return undefined;
  }

  /** The values of some rows, for those who can wait. */
  async read(column: number, from: number, to: number): Promise<Value[]> {
    const values: Value[] = [];
    for (let row = from; row < to; row += 1) {
      const name = partName.rows(this.rank, column, Math.floor(row / this.#chunkRows));
      const chunk = this.#chunks.get(name) ?? (await this.#chunk(name));
      values.push(chunk.at(row % this.#chunkRows));
    }
    return values;
  }

  whole(column: number): Promise<ColumnData> {
    let request = this.#whole.get(column);
    if (!request) {
      const count = Math.ceil(this.length / this.#chunkRows);
      const chunks = Array.from({ length: count }, (_, chunk) => this.#chunk(partName.rows(this.rank, column, chunk)));
      request = Promise.all(chunks).then((read) => joinChunks(read, this.#chunkRows));
      request.catch(() => this.#whole.delete(column));
      this.#whole.set(column, request);
    }
    return request;
  }

  #chunk(name: string): Promise<ColumnData> {
    let request = this.#requests.get(name);
    if (!request) {
      request = this.parts.bytes(name).then((bytes) => {
        const column = decodeColumn(name, bytes, this.#chunkRows);
        this.#chunks.set(name, column);
        return column;
      });
      request.catch((error: unknown) => (this.problem = error instanceof Error ? error.message : String(error)));
      this.#requests.set(name, request);
    }
    return request;
  }
}
