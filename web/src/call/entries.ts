/** The entries of a call: its rows, and what the dumps say of their values where that is included. */
import { numeric, textOf, type Value } from '../data/column.ts';
import { type CallDetail, type EntryDetail, partName } from '../payload.ts';
import type { Page } from '../state/page.svelte.ts';

export interface EntryView {
  readonly key: string;
  /** Role and position: `input.0`, `parameter.weight`. */
  readonly entry: string;
  readonly group: Group;
  readonly row: number | null;
  /** The row's values by number of column. */
  readonly values: readonly Value[];
  readonly detail: EntryDetail | null;
}

export type Group = 'Call' | 'Inputs' | 'Parameters' | 'Outputs' | 'Gradients' | 'Others';
export const GROUPS: readonly Group[] = ['Call', 'Inputs', 'Parameters', 'Outputs', 'Gradients', 'Others'];

export interface CallView {
  readonly call: number;
  readonly entries: readonly EntryView[];
  readonly problems: readonly string[];
  /** Why values of the elements are not here. */
  readonly missing: string | null;
}

/** A call has few rows. One that claims more shows the first ones, and the table has all. */
const MAX_ROWS = 400;

export async function readCall(page: Page, rank: number, call: number): Promise<CallView> {
  const view = page.view;
  if (!view || view.number !== rank) throw new Error('this step and rank is not in view');
  const [from, end] = view.calls.rowsOf(call);
  const to = Math.min(end, from + MAX_ROWS);
  const { columns } = page.manifest;
  const [byColumn, detail] = await Promise.all([
    Promise.all(columns.map((_, column) => view.rows.read(column, from, to))),
    readDetail(page, rank, call),
  ]);
  const entryColumn = entryColumnOf(page);
  const details = new Map<string | number, EntryDetail>();
  for (const one of detail?.entries ?? []) details.set(one.row ?? one.entry, one);
  const entries: EntryView[] = [];
  for (let row = from; row < to; row += 1) {
    const values = byColumn.map((column) => column[row - from] ?? null);
    const entry = textOf(values[entryColumn] ?? null);
    const key = details.has(row) ? row : keyByName(details, entry);
    const own = key === undefined ? null : (details.get(key) ?? null);
    if (key !== undefined) details.delete(key);
    entries.push({ key: `row${row}`, entry, group: groupOf(entry), row, values, detail: own });
  }
  for (const one of details.values()) {
    entries.push({
      key: `entry ${one.entry}`,
      entry: one.entry,
      group: groupOf(one.entry),
      row: one.row,
      values: [],
      detail: one,
    });
  }
  const problems = [...(detail?.problems ?? [])];
  if (end > to) problems.push(`${end - to} more rows are in the table.`);
  return { call, entries, problems, missing: detail ? null : page.manifest.missing_details };
}

/** Sheets of older tools have the whole name of an entry where details have its end: `….forward.output.0`. */
function keyByName(details: ReadonlyMap<string | number, EntryDetail>, entry: string): string | number | undefined {
  if (details.has(entry)) return entry;
  return [...details.keys()].find(
    (key) => typeof key === 'string' && /[._]/.test(entry.at(-1 - key.length) ?? '') && entry.endsWith(key),
  );
}

/** Rows are shown even where details cannot be read: why not is then a problem among others. */
async function readDetail(page: Page, rank: number, call: number): Promise<CallDetail | null> {
  const isThere = page.view?.calls.number('detail', call) === 1;
  if (!isThere && !page.manifest.details_on_demand) return null;
  try {
    const bytes = await page.parts.bytes(partName.detail(rank, call));
    return bytes && (JSON.parse(new TextDecoder().decode(bytes)) as CallDetail);
  } catch (error) {
    return { entries: [], problems: [error instanceof Error ? error.message : String(error)] };
  }
}

/** The column that names the entry: "entry", or the first one where an older tool's sheet has no such column. */
export function entryColumnOf(page: Page): number {
  return Math.max(
    0,
    page.manifest.columns.findIndex((column) => column.name === 'entry'),
  );
}

/** The entry that says most: the one with the largest error among the outputs, else the first. */
export function mostTelling(page: Page, entries: readonly EntryView[]): EntryView | null {
  const verdict = page.manifest.columns.findIndex((column) => column.name === 'verdict');
  const error = page.manifest.columns.findIndex((column) => column.name === 'rel_l2');
  const introduced = entries.find((one) =>
    / here$|^origin differs$|^different program$/.test(textOf(one.values[verdict] ?? null)),
  );
  if (introduced) return introduced;
  const outputs = entries.filter((one) => one.group === 'Outputs');
  const sorted = outputs.toSorted((a, b) => (numeric(b.values[error]) || 0) - (numeric(a.values[error]) || 0));
  return sorted[0] ?? entries[0] ?? null;
}

/** What an entry is called; a row without one is about the call. */
export function labelOf({ entry }: EntryView): string {
  return entry || 'the call as a whole';
}

/** The value of a column; dtype and shape of an entry without a row come from its details. */
export function valueOf(page: Page, { values, detail, row }: EntryView, column: number): Value {
  const [, side = 'target', field] =
    /^(?:(target|golden)_)?(dtype|shape)$/.exec(page.manifest.columns[column]?.name ?? '') ?? [];
  if (row !== null || !detail || field === undefined) return values[column] ?? null;
  const of = side === 'golden' ? detail.golden : (detail.target ?? detail.golden);
  return field === 'dtype' ? (of?.dtype ?? null) : of?.shape ? `[${of.shape.join(', ')}]` : null;
}

function groupOf(entry: string): Group {
  if (entry === '') return 'Call';
  const role = (
    entry.split('.').find((part) => /^(input|output|param|grad|kwargs|args)/.test(part)) ?? ''
  ).toLowerCase();
  if (/grad/.test(role)) return 'Gradients';
  if (role.startsWith('param')) return 'Parameters';
  if (role.startsWith('output')) return 'Outputs';
  return /^(input|kwargs|args)/.test(role) ? 'Inputs' : 'Others';
}
