/** The rows of the calls of a made-up model, and the details of a call. */
import type { CallDetail, Column } from '../../src/payload.ts';
import { type CallRecord, randomNumbers } from './model_calls.ts';
import type { Value } from './page_file.ts';

const NAMES = [
  'call',
  'entry',
  'verdict',
  'why',
  'class',
  'expected',
  'target_name',
  'golden_name',
  'target_dtype',
  'golden_dtype',
  'target_shape',
  'golden_shape',
  'cosine',
  'rel_l2',
  'max_abs',
  'max_ulp',
  'target_max',
  'target_min',
  'target_mean',
  'target_norm',
  'golden_max',
  'golden_min',
  'golden_mean',
  'golden_norm',
  'module',
  'code',
];
const SHOWN = new Set(['call', 'entry', 'verdict', 'expected', 'rel_l2', 'max_abs', 'cosine', 'max_ulp']);
const TEXT = new Set([
  'call',
  'entry',
  'verdict',
  'why',
  'class',
  'target_name',
  'golden_name',
  'target_dtype',
  'golden_dtype',
  'target_shape',
  'golden_shape',
  'module',
  'code',
]);

export const COLUMNS: Column[] = NAMES.map((name) => ({
  name,
  meaning: name === 'rel_l2' ? "Euclidean distance over the golden's norm" : '',
  type: TEXT.has(name) ? 'text' : 'number',
  shown: SHOWN.has(name),
}));

export function rowsOf(calls: readonly CallRecord[]): Map<string, Value[]> {
  const rows = new Map<string, Value[]>(NAMES.map((name) => [name, []]));
  const random = randomNumbers(7);
  for (const call of calls) {
    call.row = rows.get('call')?.length ?? 0;
    const entries = call.side === 'both' ? ['input.0', 'input.1', 'output.0'] : ['output.0'];
    entries.forEach((entry, position) => {
      const isResult = entry === 'output.0';
      const error = isResult ? call.error : call.class === 'inherited' ? (call.error ?? 0) * 0.8 : 0;
      const norm = 10 + random() * 90;
      const one = call.side === 'both';
      const values: Record<string, Value> = {
        call: call.name,
        entry,
        class: call.class,
        verdict: !one ? `only in ${call.side}` : isResult ? call.class : (error ?? 0) > 1e-5 ? 'inherited' : 'equal',
        why: isResult && call.class === 'diverged here' ? 'its inputs agree, its output does not' : null,
        expected: isResult ? call.expected : null,
        target_name: call.side === 'golden' ? null : `${call.name}.${entry}`,
        golden_name: call.side === 'target' ? null : `${call.name}.${entry}`,
        target_dtype: 'float32',
        golden_dtype: 'float32',
        target_shape: '[8, 16, 32]',
        golden_shape: '[8, 16, 32]',
        cosine: one ? 1 - (error ?? 0) ** 2 : null,
        rel_l2: one ? error : null,
        max_abs: one ? (error ?? 0) * 0.8 : null,
        max_ulp: one ? Math.round((error ?? 0) * 1e7) : null,
        target_max: 3 + random(),
        target_min: -3 - random(),
        target_mean: random() / 10,
        target_norm: norm,
        golden_max: 3 + random(),
        golden_min: -3 - random(),
        golden_mean: random() / 10,
        golden_norm: norm * (1 + (error ?? 0)),
        module: position === 0 ? call.path : null,
        code:
          position === 0
            ? `model.py:${48 + (call.row % 90)} forward: return x + self.down(self.gelu(self.up(x)))`
            : null,
      };
      for (const name of NAMES) rows.get(name)?.push(values[name] ?? null);
    });
  }
  return rows;
}

function histogramOf(shift: number): number[] {
  return Array.from({ length: 40 }, (_, bin) => Math.round(4096 * Math.exp(-(((bin - 20 - shift) / 6) ** 2))));
}

export function detailOf(call: CallRecord, isPair: boolean): CallDetail {
  return {
    problems: [],
    entries: ['input.0', 'output.0'].map((entry, position) => ({
      entry,
      row: call.row + position * 2,
      target: {
        name: `${call.name}.${entry}`,
        dtype: 'float32',
        shape: [8, 16, 32],
        value: null,
        source: 'Functional.linear.4.forward.output.0',
        stats: { max: 3.2, min: -0.17, mean: 0.41, norm: 55.1, nan: 0, pos_inf: 0, neg_inf: 0, zeros: 12 },
        digest: 'a1b2c3d4',
      },
      golden: !isPair
        ? null
        : {
            name: `${call.name}.${entry}`,
            dtype: 'float32',
            shape: [8, 16, 32],
            value: null,
            source: null,
            stats: { max: 3.19, min: -0.17, mean: 0.408, norm: 54.9, nan: 0, pos_inf: 0, neg_inf: 0, zeros: 12 },
            digest: 'a1b2c3d5',
          },
      histogram: { min: -0.2, max: 3.2, target: histogramOf(position), golden: isPair ? histogramOf(0) : null },
      magnitudes: {
        from: -12,
        target: histogramOf(1).slice(8, 24),
        golden: isPair ? histogramOf(0).slice(8, 24) : null,
      },
      errors: position === 0 ? null : { from: -24, counts: histogramOf(-4).slice(0, 20), zero: 210, not_finite: 0 },
      worst:
        position === 0 || !isPair
          ? []
          : [
              { index: [3, 7, 21], target: 1.7190001, golden: 1.7164, abs: 0.00255, rel: 0.00149 },
              { index: [0, 2, 5], target: 'NaN', golden: 0.25, abs: 'NaN', rel: null },
            ],
      sampled: position === 0 ? null : [1048576, 16777216],
    })),
  };
}
