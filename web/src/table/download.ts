/** The rows in view as a csv file. */
import type { Rows } from '../data/rows.ts';
import type { Column } from '../payload.ts';
import { type Cell, csvLine } from '../text/csv.ts';

const LINES_AT_ONCE = 5000;

export async function csvOf(
  rows: Rows,
  columns: readonly Column[],
  chosen: readonly number[],
  found: Uint32Array | null,
): Promise<Blob> {
  const data = await Promise.all(chosen.map((column) => rows.whole(column)));
  const pieces = [csvLine(chosen.map((column) => columns[column]?.name ?? ''))];
  const count = found?.length ?? rows.length;
  for (let from = 0; from < count; from += LINES_AT_ONCE) {
    let piece = '';
    for (let at = from; at < Math.min(count, from + LINES_AT_ONCE); at += 1) {
      const row = found ? (found[at] ?? 0) : at;
      piece += csvLine(data.map((column): Cell => column.at(row)));
    }
    pieces.push(piece);
  }
  return new Blob(pieces, { type: 'text/csv;charset=utf-8' });
}

export function download(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The download begins in a task of its own.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
