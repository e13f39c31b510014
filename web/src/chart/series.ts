/** What the chart shows of the calls of a rank, as positions on a logarithmic axis. */
import { classOf } from '../classes.ts';
import type { Calls } from '../data/calls.ts';
import type { CallField } from '../payload.ts';

export interface Series {
  /** The measured value of each call: its error, or its norm in a page of one run. */
  readonly measured: Float64Array;
  /** What rounding and the inputs allow; NaN where it was not judged. */
  readonly floor: Float64Array;
  readonly marks: readonly string[];
  readonly backward: Uint8Array;
  /** Values on the axis: powers of ten, with places of their own for zero and for what is not finite. */
  readonly y: (number | null)[];
  readonly low: number;
  readonly high: number;
  readonly zeroAt: number;
  readonly notFiniteAt: number;
  /** Where calls are that need attention and have no number: one side alone makes them. */
  readonly unmeasuredAt: number;
  readonly bottom: number;
}

/** Gradients of parameters arrive in the backward pass. */
function isBackward(pass: string): boolean {
  return pass === 'backward' || pass === 'parameters_grad';
}

export function seriesOf(calls: Calls, field: CallField): Series {
  const count = calls.length;
  const measured = new Float64Array(count);
  const floor = new Float64Array(count);
  const backward = new Uint8Array(count);
  const marks: string[] = [];
  const isMissing = new Uint8Array(count);
  let low = Infinity;
  let high = -Infinity;
  for (let call = 0; call < count; call += 1) {
    const value = calls.number(field, call);
    measured[call] = value;
    isMissing[call] = calls.value(field, call) === null ? 1 : 0;
    floor[call] = calls.number('expected', call);
    backward[call] = isBackward(calls.text('pass', call)) ? 1 : 0;
    marks.push(calls.mark(call));
    for (const one of [value, floor[call] ?? NaN]) {
      const power = Math.log10(Math.abs(one));
      if (Number.isFinite(power)) {
        low = Math.min(low, power);
        high = Math.max(high, power);
      }
    }
  }
  if (low > high) [low, high] = [-8, 0];
  low = Math.floor(low);
  high = Math.max(Math.ceil(high), low + 1);
  const zeroAt = low - 0.8;
  const unmeasuredAt = zeroAt - 1;
  const notFiniteAt = high + 0.8;
  const y = Array.from(measured, (value, call) => {
    if (isMissing[call]) return classOf(marks[call]).weight >= 3 ? unmeasuredAt : null;
    if (value === 0) return zeroAt;
    return Number.isFinite(value) ? Math.log10(Math.abs(value)) : notFiniteAt;
  });
  const bottom = (y.includes(unmeasuredAt) ? unmeasuredAt : zeroAt) - 0.5;
  return { measured, floor, marks, backward, y, low, high, zeroAt, notFiniteAt, unmeasuredAt, bottom };
}
