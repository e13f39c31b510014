/** Places of ticks on a logarithmic axis whose positions are powers of ten. */

const MOST = 6;

/** Whole powers where there are several; else 1, 2 and 5 between them, or round numbers in a narrow range. */
export function logarithmicTicks(low: number, high: number): number[] {
  if (!(high > low)) return [low];
  if (high - low > 2) {
    const step = Math.ceil((high - low) / MOST);
    return multiples(Math.ceil(low), high, step);
  }
  const parts = multiples(Math.floor(low), high, 1).flatMap((power) =>
    [1, 2, 5].map((digit) => power + Math.log10(digit)),
  );
  const found = parts.filter((at) => at >= low && at <= high);
  return found.length > 1 ? found : roundNumbers(10 ** low, 10 ** high).map(Math.log10);
}

function roundNumbers(low: number, high: number): number[] {
  const rough = (high - low) / (MOST - 2);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((digit) => digit * power >= rough) ?? 10);
  return multiples(Math.ceil(low / step) * step, high, step);
}

function multiples(from: number, to: number, step: number): number[] {
  return Array.from({ length: Math.max(0, Math.floor((to - from) / step) + 1) }, (_, at) => from + at * step);
}
