/** The calls of a rank: the columns that tree, chart and table need at once; stacks come when they are shown. */
import { type CallField, type Manifest, partName } from '../payload.ts';
import { type ColumnData, decodeColumn, numeric, textOf, type Value } from './column.ts';
import type { Parts } from './parts.ts';

const ALWAYS: readonly CallField[] = ['name', 'pass', 'op', 'path', 'row', 'rows', 'verdict', 'detail'];
const OF_PAIRS: readonly CallField[] = ['golden', 'side', 'class', 'error', 'expected', 'region'];
const OF_RUNS: readonly CallField[] = ['norm', 'max_abs', 'nan', 'inf', 'zeros', 'finding'];

export class Calls {
  readonly #columns = new Map<CallField, ColumnData>();

  private constructor(
    readonly parts: Parts,
    readonly rank: number,
    readonly length: number,
  ) {}

  static async load(parts: Parts, manifest: Manifest, rank: number): Promise<Calls> {
    const calls = new Calls(parts, rank, manifest.ranks[rank]?.calls ?? 0);
    const fields = [...ALWAYS, ...(manifest.kind === 'run' ? OF_RUNS : OF_PAIRS)];
    if (calls.length > 0) await Promise.all(fields.map((field) => calls.column(field)));
    return calls;
  }

  async column(field: CallField): Promise<ColumnData> {
    const known = this.#columns.get(field);
    if (known) return known;
    const name = partName.calls(this.rank, field);
    const column = decodeColumn(name, await this.parts.bytes(name), this.length);
    this.#columns.set(field, column);
    return column;
  }

  value(field: CallField, call: number): Value {
    return this.#columns.get(field)?.at(call) ?? null;
  }

  text(field: CallField, call: number): string {
    return textOf(this.value(field, call));
  }

  number(field: CallField, call: number): number {
    return numeric(this.value(field, call));
  }

  /** The word that gives a call its mark: the worst finding of a run, its class, or the verdict of an older tool's rule. */
  mark(call: number): string {
    if (this.#columns.has('finding')) return this.text('finding', call) || 'no finding';
    return this.text('class', call) || this.text('verdict', call);
  }

  /** The rows of a call: the first and the one after the last. */
  rowsOf(call: number): [number, number] {
    const first = this.number('row', call);
    return Number.isNaN(first) ? [0, 0] : [first, first + (this.number('rows', call) || 0)];
  }
}
