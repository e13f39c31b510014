import assert from 'node:assert/strict';
import { eventually, pageTests, shows } from './support/cases.ts';

const test = pageTests({ layers: 4 });

test('the call shows its entries in groups, and the one that says most is chosen', async ({ page }) => {
  const grid = page.getByRole('grid', { name: 'Entries of the call' });
  await grid.waitFor();
  assert.deepEqual(await grid.locator('.group').allInnerTexts(), ['Inputs', 'Outputs']);
  assert.match(await grid.locator('tr.chosen').innerText(), /output\.0\s+diverged here/);
});

test('metrics, statistics of both sides, histograms, worst elements and stack are there', async ({ page }) => {
  const panel = page.locator('[data-field="entry-panel"]');
  await panel.waitFor();
  const text = await panel.innerText();
  for (const part of [
    'rel_l2',
    '0.00327',
    'max',
    '3.2',
    '3.19',
    'float32',
    '[8, 16, 32]',
    'its inputs agree',
    '210 elements are equal',
  ]) {
    assert.ok(text.includes(part), `${part} in ${text}`);
  }
  assert.equal(await panel.locator('[data-field="histogram"]').count(), 3);
  assert.match(await panel.locator('[data-field="worst"]').innerText(), /\[3, 7, 21\]\s+1\.7190001\s+1\.7164/);
  assert.match(text, /Of 16,777,216 elements, 1,048,576 were read/);
  const stacks = await page.locator('[data-field="stacks"]').innerText();
  assert.match(stacks, /train\.py:12 main/);
  assert.match(stacks, /golden\/model\.py/);
});

test('a different entry is chosen by a click or by arrow keys', async ({ page }) => {
  const chosen = page.getByRole('grid', { name: 'Entries of the call' }).locator('tr.chosen');
  await chosen.getByRole('button').focus();
  await page.keyboard.press('ArrowUp');
  await eventually(
    () => chosen.innerText(),
    (text) => text.includes('input.1'),
    'the entry above',
  );
  await page
    .getByRole('button', { name: /input\.0/ })
    .first()
    .click();
  await eventually(
    () => page.locator('[data-field="entry-panel"] h3').innerText(),
    (text) => text === 'input.0',
    'panel',
  );
});

test('a call without details says why, and shows the statistics of its rows', async ({ page }) => {
  await page.locator('[data-list="consumers"] button').first().click();
  await shows(page, 'Functional.linear.8.forward');
  const panel = page.locator('[data-field="entry-panel"]');
  await eventually(
    () => panel.innerText(),
    (text) => text.includes('ulpscope view result'),
    'the command',
  );
  assert.match(await panel.innerText(), /norm\s+[\d.]+\s+[\d.]+/);
  assert.equal(await panel.locator('[data-field="histogram"]').count(), 0);
});

test('frames of libraries are folded, and open', async ({ page }) => {
  const stack = page.locator('[data-field="stacks"] ol').first();
  await stack.waitFor();
  assert.match(await stack.innerText(), /model\.py:\d+ forward[^]*3 frames of libraries[^]*train\.py:12 main/);
  assert.doesNotMatch(await stack.innerText(), /_call_impl/);
  await stack.getByRole('button', { name: '3 frames of libraries' }).click();
  assert.match(await stack.innerText(), /modules\/module\.py:1779 _wrapped_call_impl/);
});
