import assert from 'node:assert/strict';
import { test } from 'node:test';
import { csvLine, disarm, pythonFloat } from '../src/text/csv.ts';
import { exact, measured, powerOfTen, powerOfTwo, times } from '../src/text/number.ts';
import { beginning, codePlace, ending, shortened, visible } from '../src/text/visible.ts';

test('characters without a glyph are shown by their number', () => {
  assert.equal(visible('a\u202eb\u200bc\nd'), 'a\\u{202e}b\\u{200b}c\\nd');
  assert.equal(visible('日本語 👩\u200d💻 é'), '日本語 👩\\u{200d}💻 é');
  assert.equal(visible('❤️'), '❤️');
});

test('long names are shortened by characters, not by halves of them', () => {
  assert.equal(ending('👍'.repeat(10), 4), '…👍👍👍');
  assert.equal(shortened('abcdefghij', 6), 'ab…hij');
  assert.equal(ending('short', 10), 'short');
});

test('a line of code is shown with the last folder of its path', () => {
  assert.equal(
    codePlace('/home/me/project/src/model.py:48 forward: return a / b'),
    '…/src/model.py:48 forward: return a / b',
  );
  assert.equal(codePlace('C:\\work\\src\\model.py:48 forward'), '…/src\\model.py:48 forward');
  assert.equal(codePlace('src/model.py:48 forward: x'), 'src/model.py:48 forward: x');
  assert.equal(codePlace('model.py:48'), 'model.py:48');
});

test('formulas are disarmed as in the sheets', () => {
  for (const [text, safe] of [
    ['=cmd()', "'=cmd()"],
    ['＝1', "'＝1"],
    ['+a', "'+a"],
    ['@x', "'@x"],
    ['\tx', "'\tx"],
    ["'=x", "''=x"],
    ['a;=b', "a;'=b"],
    ['a\n-b', "a\n'-b"],
    ['-1.5e-05', '-1.5e-05'],
    ['-inf', '-inf'],
    ['-1;-2', '-1;-2'],
    ['-', '-'],
    ['a-b', 'a-b'],
    ['', ''],
  ] as const) {
    assert.equal(disarm(text), safe, JSON.stringify(text));
  }
});

test('a line of csv is what the sheets have', () => {
  assert.equal(csvLine(['a,b', 'say "x"', null, 1, 1e-7, true]), '"a,b","say ""x""",,1.0,1e-07,True\n');
  assert.equal(csvLine([NaN, -Infinity, -0]), 'nan,-inf,-0.0\n');
  assert.equal(csvLine(['']), '""\n');
  assert.equal(csvLine(['line\nbreak\u202e']), '"line\nbreak\\u{202e}"\n');
});

test('floats are written as Python writes them', () => {
  for (const [value, text] of [
    [0, '0.0'],
    [1e16, '1e+16'],
    [123456789012345680, '1.2345678901234568e+17'],
    [1e15, '1000000000000000.0'],
    [0.0001, '0.0001'],
    [0.00001234, '1.234e-05'],
    [1.5, '1.5'],
  ] as const) {
    assert.equal(pythonFloat(value), text);
  }
});

test('numbers for people have three digits', () => {
  assert.equal(measured(0.0032712), '0.00327');
  assert.equal(measured(9.131e-7), '9.13e-7');
  assert.equal(measured(21712.3), '21,700');
  assert.equal(measured(-1), '−1');
  assert.equal(measured(null), '–');
  assert.equal(measured(NaN), 'NaN');
  assert.equal(measured(Infinity), '∞');
  assert.equal(exact(1.7190001), '1.7190001');
  assert.equal(powerOfTen(-6), '1e-6');
  assert.equal(powerOfTen(-2), '0.01');
  assert.equal(powerOfTwo(-41), '2⁻⁴¹');
});

test('integers are shown in full: an index that is rounded leads to a different element', () => {
  assert.equal(measured(2707), '2,707');
  assert.equal(measured(-521463), '−521,463');
  assert.equal(measured(123456789012), '1.23e11');
});

test('a cosine that is not 1 is not shown as 1', () => {
  assert.equal(measured(0.9999957), '0.999996');
  assert.equal(measured(1.00000004), '1.00000004');
  assert.equal(measured(1), '1');
  assert.equal(measured(0.99951), '0.9995');
});

test('a heading has the sentences that fit', () => {
  assert.deepEqual(beginning('One sentence.'), ['One sentence.', '']);
  const long = `${'a'.repeat(150)}. Then more.`;
  assert.deepEqual(beginning(long), [`${'a'.repeat(150)}.`, 'Then more.']);
  assert.deepEqual(beginning(`First 1.5 of x.y.0. Second. ${'c'.repeat(140)}.`), [
    'First 1.5 of x.y.0. Second.',
    `${'c'.repeat(140)}.`,
  ]);
  assert.deepEqual(beginning(`一。二。${'三'.repeat(140)}。`), ['一。二。', `${'三'.repeat(140)}。`]);
  assert.deepEqual(beginning(''), ['', '']);
});

test('places in the middle of a line are short, too', () => {
  assert.equal(
    codePlace('* Tensor.add.0  /home/me/project/src/model.py:48 forward: a / b'),
    '* Tensor.add.0  …/src/model.py:48 forward: a / b',
  );
});

test('ratios have the digits that explanations have', () => {
  assert.deepEqual([2.5, 3581.2, 19_220_000, 4.4e15].map(times), ['2.5', '3,580', '19,200,000', '4.4e15']);
});
