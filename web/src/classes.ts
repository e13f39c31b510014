/** The classes of calls: marks that differ in shape as well as in colour, and words in the language of the page. */
import type { Words } from './payload.ts';

export type Shape = 'ring' | 'dot' | 'triangle' | 'diamond' | 'square' | 'cross' | 'half' | 'dash';

export interface CallClass {
  readonly name: string;
  /** Its name in the language of the page. */
  readonly label: string;
  readonly shape: Shape;
  /** The custom property of its colour. */
  readonly colour: string;
  readonly meaning: string;
  /** How much it deserves attention; a module shows the highest of what it contains. */
  readonly weight: number;
}

interface ClassMark {
  readonly name: string;
  readonly shape: Shape;
  readonly colour: string;
  readonly weight: number;
}

const MARKS: readonly ClassMark[] = [
  { name: 'equal', shape: 'ring', colour: '--equal', weight: 1 },
  { name: 'noise', shape: 'dot', colour: '--noise', weight: 2 },
  {
    name: 'inherited',
    shape: 'triangle',
    colour: '--inherited',
    weight: 4,
  },
  {
    name: 'diverged here',
    shape: 'diamond',
    colour: '--diverged',
    weight: 8,
  },
  {
    name: 'origin differs',
    shape: 'square',
    colour: '--origin',
    weight: 6,
  },
  {
    name: 'non-finite born here',
    shape: 'cross',
    colour: '--non-finite',
    weight: 7,
  },
  {
    name: 'different program',
    shape: 'half',
    colour: '--program',
    weight: 5,
  },
  {
    name: 'not comparable',
    shape: 'dash',
    colour: '--unknown',
    weight: 3,
  },
  // Findings of a single run, and verdicts by the rule of an older tool: words in the place of a class.
  { name: 'not finite', shape: 'cross', colour: '--non-finite', weight: 8 },
  {
    name: 'overflow near',
    shape: 'diamond',
    colour: '--diverged',
    weight: 7,
  },
  {
    name: 'large gradient',
    shape: 'triangle',
    colour: '--inherited',
    weight: 6,
  },
  {
    name: 'large values',
    shape: 'triangle',
    colour: '--inherited',
    weight: 6,
  },
  {
    name: 'saturated',
    shape: 'square',
    colour: '--origin',
    weight: 5,
  },
  { name: 'dead', shape: 'half', colour: '--program', weight: 5 },
  {
    name: 'no gradient',
    shape: 'half',
    colour: '--program',
    weight: 5,
  },
  { name: 'non-finite inherited', shape: 'triangle', colour: '--inherited', weight: 4 },
  { name: 'fail', shape: 'diamond', colour: '--diverged', weight: 8 },
  {
    name: 'failed',
    shape: 'diamond',
    colour: '--diverged',
    weight: 8,
  },
  { name: 'warn', shape: 'triangle', colour: '--inherited', weight: 4 },
  {
    name: 'not compared',
    shape: 'dash',
    colour: '--unknown',
    weight: 3,
  },
  { name: 'pass', shape: 'ring', colour: '--equal', weight: 1 },
  { name: 'no finding', shape: 'ring', colour: '--equal', weight: 1 },
];

const UNKNOWN: CallClass = { name: '', label: '', shape: 'dash', colour: '--unknown', weight: 0, meaning: '' };
const byName = new Map<string, CallClass>(MARKS.map((mark) => [mark.name, { ...mark, label: mark.name, meaning: '' }]));

/** Takes the names and meanings of the page's language. */
export function nameClasses(words: Words['classes']): void {
  for (const mark of MARKS) {
    const word = words[mark.name];
    if (word) byName.set(mark.name, { ...mark, label: word.name, meaning: word.meaning });
  }
}

export function classOf(name: string | null | undefined): CallClass {
  if (!name) return UNKNOWN;
  return byName.get(name) ?? { ...UNKNOWN, name, label: name };
}
