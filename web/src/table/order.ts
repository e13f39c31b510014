/** The order of columns in the table: that of the sheet, but long texts come after the numbers. */
import type { Column } from '../payload.ts';

const LONG = ['why', 'module', 'code', 'inner_code', 'golden_code', 'NPU_Stack_Info', 'Err_message'];

export function inReadingOrder(columns: readonly Column[], chosen: readonly number[]): number[] {
  const isLong = (column: number) => Number(LONG.includes(columns[column]?.name ?? ''));
  return chosen.toSorted((a, b) => isLong(a) - isLong(b) || a - b);
}
