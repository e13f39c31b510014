/** The classes of calls: their words, and marks that differ in shape as well as in colour. */

export type Shape = 'ring' | 'dot' | 'triangle' | 'diamond' | 'square' | 'cross' | 'half' | 'dash';

export interface CallClass {
  readonly name: string;
  readonly shape: Shape;
  /** The custom property of its colour. */
  readonly colour: string;
  readonly meaning: string;
  /** How much it deserves attention; a module shows the highest of what it contains. */
  readonly weight: number;
}

export const CLASSES: readonly CallClass[] = [
  { name: 'equal', shape: 'ring', colour: '--equal', weight: 1, meaning: 'No difference.' },
  { name: 'noise', shape: 'dot', colour: '--noise', weight: 2, meaning: 'Differs by no more than rounding explains.' },
  {
    name: 'inherited',
    shape: 'triangle',
    colour: '--inherited',
    weight: 4,
    meaning: 'Its inputs already differ, and its results differ by no more than that explains.',
  },
  {
    name: 'diverged here',
    shape: 'diamond',
    colour: '--diverged',
    weight: 8,
    meaning: 'Its inputs agree, its results do not.',
  },
  {
    name: 'origin differs',
    shape: 'square',
    colour: '--origin',
    weight: 6,
    meaning: 'It gets a weight, a buffer, an input or a random number that differs between the two runs.',
  },
  {
    name: 'non-finite born here',
    shape: 'cross',
    colour: '--non-finite',
    weight: 7,
    meaning: 'NaN or infinite outputs that its inputs do not have.',
  },
  {
    name: 'different program',
    shape: 'half',
    colour: '--program',
    weight: 5,
    meaning: 'Only one side makes the call, or with a different shape or a different scalar argument.',
  },
  {
    name: 'not comparable',
    shape: 'dash',
    colour: '--unknown',
    weight: 3,
    meaning: 'It cannot be judged: too little was recorded, or it is on a different route to the same results.',
  },
];

/** Findings of a single run, and verdicts by the rule of an older tool: words in the place of a class. */
const OTHER_MARKS: readonly CallClass[] = [
  { name: 'not finite', shape: 'cross', colour: '--non-finite', weight: 8, meaning: 'NaN or infinite values.' },
  {
    name: 'overflow near',
    shape: 'diamond',
    colour: '--diverged',
    weight: 7,
    meaning: 'Values near the largest of their dtype.',
  },
  {
    name: 'large gradient',
    shape: 'triangle',
    colour: '--inherited',
    weight: 6,
    meaning: 'A norm far above that of other gradients.',
  },
  {
    name: 'large values',
    shape: 'triangle',
    colour: '--inherited',
    weight: 6,
    meaning: 'Values far larger than elsewhere.',
  },
  {
    name: 'saturated',
    shape: 'square',
    colour: '--origin',
    weight: 5,
    meaning: 'Most values are at the limit of their function.',
  },
  { name: 'dead', shape: 'half', colour: '--program', weight: 4, meaning: 'All or nearly all values are zero.' },
  {
    name: 'no gradient',
    shape: 'half',
    colour: '--program',
    weight: 4,
    meaning: 'No gradient, or one of zeros, arrives.',
  },
  { name: 'fail', shape: 'diamond', colour: '--diverged', weight: 8, meaning: 'A row fails by the rule.' },
  {
    name: 'failed',
    shape: 'diamond',
    colour: '--diverged',
    weight: 8,
    meaning: 'The first row that fails by the rule.',
  },
  { name: 'warn', shape: 'triangle', colour: '--inherited', weight: 4, meaning: 'A row is to be looked at.' },
  {
    name: 'not compared',
    shape: 'dash',
    colour: '--unknown',
    weight: 3,
    meaning: 'The two sides have nothing in common to compare.',
  },
  { name: 'pass', shape: 'ring', colour: '--equal', weight: 1, meaning: 'It passes by the rule.' },
  { name: 'no finding', shape: 'ring', colour: '--equal', weight: 1, meaning: 'Its values are ordinary.' },
];

const UNKNOWN: CallClass = { name: '', shape: 'dash', colour: '--unknown', weight: 0, meaning: 'It has no class.' };
const BY_NAME = new Map([...CLASSES, ...OTHER_MARKS].map((one) => [one.name, one]));

export function classOf(name: string | null | undefined): CallClass {
  if (!name) return UNKNOWN;
  return BY_NAME.get(name) ?? { ...UNKNOWN, name };
}
