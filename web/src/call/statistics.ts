/** Statistics of an entry on both sides, from its details or from columns of its row. */
import { numeric } from '../data/column.ts';
import type { Manifest, NumberOrText } from '../payload.ts';
import type { EntryView } from './entries.ts';

export interface Statistic {
  readonly name: string;
  readonly target: number | null;
  readonly golden: number | null;
}

const ORDER = [
  'max',
  'min',
  'mean',
  'norm',
  'nan',
  'pos_inf',
  'neg_inf',
  'zeros',
  'subnormals',
  'finite_max',
  'finite_min',
];

export function statisticsOf(manifest: Manifest, entry: EntryView): Statistic[] {
  const target: Record<string, NumberOrText | null> = { ...entry.detail?.target?.stats };
  const golden: Record<string, NumberOrText | null> = { ...entry.detail?.golden?.stats };
  if (!entry.detail) {
    manifest.columns.forEach(({ name }, at) => {
      const value = entry.values[at] ?? null;
      if (typeof value !== 'number') return;
      const [, side, statistic = ''] = /^(target|golden)_(.+)$/.exec(name) ?? [];
      if (side !== undefined) (side === 'target' ? target : golden)[statistic] = value;
      else if (manifest.kind === 'run') target[name] = value;
    });
  }
  const names = new Set([...Object.keys(target), ...Object.keys(golden)]);
  const order = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return [...names]
    .sort((a, b) => order(a) - order(b))
    .map((name) => ({ name, target: finite(target[name]), golden: finite(golden[name]) }));
}

function finite(value: NumberOrText | null | undefined): number | null {
  return value === null || value === undefined ? null : numeric(value);
}
