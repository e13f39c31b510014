/** Numbers for people: integers in full, else three digits; files have all of them. */

const GROUPED = new Intl.NumberFormat('en-US');

/** A measured value: `0.00327`, `9.13e-7`, `21,700`. */
export function measured(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text =
    Number.isInteger(value) && size < 1e9
      ? GROUPED.format(size)
      : size < 1e-3 || size >= 1e6
        ? trimmed(size.toExponential(2))
        : size >= 1000
          ? GROUPED.format(Number(size.toPrecision(3)))
          : String(apartFromOne(size));
  return value < 0 ? `−${text}` : text;
}

/** Three digits, or as many as distinguish it from 1: of a cosine, what is left to 1 is what matters. */
function apartFromOne(size: number): number {
  let digits = 3;
  while (digits < 17 && size !== 1 && Number(size.toPrecision(digits)) === 1) digits += 1;
  return Number(size.toPrecision(digits));
}

/** How many times as large, in the same digits as in explanations: `3,580`, `19,200,000`. */
export function times(ratio: number): string {
  return ratio >= 1e3 && ratio < 1e12 ? GROUPED.format(Number(ratio.toPrecision(3))) : measured(ratio);
}

/** A count: `12,000`. */
export function counted(value: number): string {
  return GROUPED.format(value);
}

/** A count with its noun: `1 call`, `2 calls`. */
export function countOf(value: number, singular: string, plural = `${singular}s`): string {
  return `${counted(value)} ${value === 1 ? singular : plural}`;
}

/** A value of a tensor with enough digits to distinguish neighbours in float32. */
export function exact(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return value < 0 ? `−${size}` : String(size);
  const text =
    size !== 0 && (size < 1e-4 || size >= 1e7) ? trimmed(size.toExponential(6)) : String(Number(size.toPrecision(8)));
  return value < 0 ? `−${text}` : text;
}

/** A tick of a logarithmic axis: `1e-6`, `0.01`, `1`. */
export function powerOfTen(exponent: number): string {
  return exponent < -3 || exponent > 4 ? `1e${exponent}` : String(Number(`1e${exponent}`));
}

const SUPERSCRIPTS: Record<string, string> = Object.fromEntries(
  [...'-0123456789'].map((one, at) => [one, [...'⁻⁰¹²³⁴⁵⁶⁷⁸⁹'][at] ?? '']),
);

/** A power of two: `2⁻⁴¹`. */
export function powerOfTwo(exponent: number): string {
  return `2${[...String(exponent)].map((one) => SUPERSCRIPTS[one] ?? one).join('')}`;
}

function trimmed(exponential: string): string {
  return exponential.replace(/\.?0+e/, 'e').replace('e+', 'e');
}
