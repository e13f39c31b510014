/**
 * Rows as comma-separated values, as crates/report writes them: `\n` at line ends, quotes only where needed, and a
 * `'` before anything that a spreadsheet would run.
 */
import { visibleInSheet } from './visible.ts';

export type Cell = string | number | boolean | null;

// Possible first characters of a formula, as in crates/report/src/sheet/formula.rs.
const BEGINNING = /^[=+\-@\t\r＝＋－＠]/u;
const ANY_BEGINNING = /[=+\-@\t\r＝＋－＠]/u;
const NUMBER = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)$/i;

function isHarmless(text: string): boolean {
  const isSingleSign = Array.from(text).length === 1 && text !== '\t' && text !== '\r';
  return isSingleSign || text.split(';').every((part) => NUMBER.test(part));
}

/** The text with a `'` before anything that could begin a formula: at its start, after `;` and after line breaks. */
export function disarm(text: string): string {
  if (!ANY_BEGINNING.test(text) || isHarmless(text)) return text;
  const segments = text.match(/[^;\n\r]*[;\n\r]|[^;\n\r]+$/g) ?? [];
  return segments.map((segment) => (BEGINNING.test(segment.replace(/^'+/, '')) ? `'${segment}` : segment)).join('');
}

/** A float as Python's `repr` writes it. */
export function pythonFloat(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (Object.is(value, -0)) return '-0.0';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) {
    const [digits, exponent] = value.toExponential().split('e') as [string, string];
    const sign = exponent.startsWith('-') ? '-' : '+';
    return `${digits}e${sign}${exponent.replace(/^[+-]/, '').padStart(2, '0')}`;
  }
  const text = String(value);
  return text.includes('.') ? text : `${text}.0`;
}

function field(cell: Cell): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return pythonFloat(cell);
  if (typeof cell === 'boolean') return cell ? 'True' : 'False';
  const text = disarm(visibleInSheet(cell));
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** One line, with its end. */
export function csvLine(cells: readonly Cell[]): string {
  if (cells.length === 1 && (cells[0] === '' || cells[0] === null)) return '""\n';
  return `${cells.map(field).join(',')}\n`;
}
