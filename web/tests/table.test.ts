import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { eventually, pageTests, selectedCall, shows } from './support/cases.ts';

const test = pageTests({ layers: 30, chunkRows: 100 });

const table = (page: Page) => page.locator('[data-view="table"]');
const count = (page: Page) => page.locator('[data-field="row-count"]').innerText();
const rowsAre = (page: Page, text: string | RegExp) =>
  eventually(
    () => count(page),
    (one) => (typeof text === 'string' ? one === text : text.test(one)),
    `rows: ${text}`,
  );

/** Texts of a column of the rows in view, in order. */
async function column(page: Page, name: string): Promise<string[]> {
  const headings = await table(page).getByRole('columnheader').allInnerTexts();
  const at = headings.findIndex((one) => one.replace(/ [↑↓]$/, '') === name);
  assert.ok(at >= 0, `${name} in ${headings}`);
  return table(page)
    .locator('.rows .row')
    .evaluateAll((rows, index) => rows.map((row) => row.children[index]?.textContent ?? ''), at);
}

test('text filters rows by all its words', async ({ page }) => {
  await page.locator('[data-field="row-filter"]').fill('gelu.2.forward OUTPUT');
  await rowsAre(page, /^1 row of/);
  assert.deepEqual(await column(page, 'entry'), ['output.0']);
  await page.locator('[data-field="row-filter"]').fill('no such thing');
  await rowsAre(page, /^0 rows of/);
  await page.getByRole('button', { name: 'Clear filters' }).click();
  await rowsAre(page, /^[\d,]+ rows$/);
});

test('a class filters rows', async ({ page }) => {
  await page
    .getByRole('group', { name: 'Filter rows by class' })
    .getByRole('button', { name: /different program/ })
    .click();
  await rowsAre(page, /^3 rows of/);
  assert.deepEqual(await column(page, 'verdict'), ['only in target', 'only in target', 'only in golden']);
  await page
    .getByRole('group', { name: 'Filter rows by class' })
    .getByRole('button', { name: /diverged here/ })
    .click();
  await rowsAre(page, /^6 rows of/);
});

test('the range of a metric filters rows', async ({ page }) => {
  assert.equal(await page.locator('[data-field="range-column"] option:checked').innerText(), 'rel_l2');
  await page.locator('[data-field="range-low"]').fill('1e-3');
  await page.locator('[data-field="range-high"]').fill('0.002');
  await rowsAre(page, /of/);
  const values = (await column(page, 'rel_l2')).map(Number);
  assert.ok(values.length > 0 && values.every((value) => value >= 0.00099 && value <= 0.00201), String(values));
});

test('a heading sorts: largest first, smallest first, as recorded', async ({ page }) => {
  const heading = table(page).getByRole('columnheader', { name: 'rel_l2' });
  const numbers = async () => (await column(page, 'rel_l2')).filter((one) => one !== '–').map(Number);
  const before = await numbers();
  await heading.getByRole('button').click();
  await eventually(
    () => heading.getAttribute('aria-sort'),
    (one) => one === 'descending',
    'descending',
  );
  await eventually(
    numbers,
    (all) => all.length > 5 && all.every((one, at) => at === 0 || one <= (all[at - 1] ?? 0)),
    'in order',
  );
  await heading.getByRole('button').click();
  await eventually(
    numbers,
    (all) => all.length > 5 && all.every((one, at) => at === 0 || one >= (all[at - 1] ?? 0)),
    'in order',
  );
  assert.equal(await heading.getAttribute('aria-sort'), 'ascending');
  await heading.getByRole('button').click();
  assert.equal(await heading.getAttribute('aria-sort'), 'none');
  assert.notDeepEqual(before, []);
});

test('missing values are last in either order', async ({ page }) => {
  const heading = table(page).getByRole('columnheader', { name: 'expected' }).getByRole('button');
  for (const clicks of [1, 2]) {
    await heading.click();
    await eventually(
      () => column(page, 'expected'),
      (all) => (all[0] ?? '–') !== '–',
      `${clicks}: the first is present`,
    );
    await table(page).focus();
    await page.keyboard.press('End');
    await eventually(
      () => column(page, 'expected'),
      (all) => all.at(-1) === '',
      `${clicks}: the last is missing`,
    );
  }
});

test('columns can be chosen', async ({ page }) => {
  await page.getByRole('button', { name: /^Columns/ }).click();
  const list = page.getByRole('group', { name: 'Columns of the table' });
  await list.getByLabel('golden_norm').check();
  await list.getByLabel('cosine').uncheck();
  await page.keyboard.press('Escape');
  assert.equal(await list.count(), 0);
  const headings = await table(page).getByRole('columnheader').allInnerTexts();
  assert.ok(headings.includes('golden_norm') && !headings.includes('cosine'), String(headings));
});

test('long texts come after the numbers', async ({ page }) => {
  await page.getByRole('button', { name: /^Columns/ }).click();
  await page.getByRole('group', { name: 'Columns of the table' }).getByLabel('module').check();
  await page.keyboard.press('Escape');
  const headings = await table(page).getByRole('columnheader').allInnerTexts();
  assert.equal(headings.at(-1), 'module');
});

test('the csv has the rows that match and the columns shown', async ({ page }) => {
  await page.locator('[data-field="row-filter"]').fill('gelu.2.forward');
  await rowsAre(page, /^3 rows of/);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download csv' }).click(),
  ]);
  assert.equal(download.suggestedFilename(), 'ulpscope_rows.csv');
  const lines = readFileSync(await download.path(), 'utf8').split('\n');
  assert.equal(lines[0], 'call,entry,verdict,expected,cosine,rel_l2,max_abs,max_ulp');
  assert.equal(lines.length, 5);
  assert.match(lines[3] ?? '', /^Functional\.gelu\.2\.forward,output\.0,diverged here,9\.13e-07,0\.99\d+,0\.00327,/);
});

test('only rows in view are in the document, and scrolling brings others', async ({ page }) => {
  const rows = table(page).locator('.rows .row');
  assert.ok((await rows.count()) < 60);
  await table(page).evaluate((one) => (one.scrollTop = one.scrollHeight));
  const last = Number((await table(page).getAttribute('aria-rowcount')) ?? 0);
  await eventually(
    () => rows.last().getAttribute('aria-rowindex'),
    (at) => Number(at) === last,
    'the last row',
  );
  await eventually(
    () => rows.last().innerText(),
    (text) => text.includes('Functional.embedding.0.backward'),
    'its values',
  );
});

test('a row selects its call, and keys move', async ({ page }) => {
  await table(page).locator('.rows .row').filter({ hasText: 'Functional.linear.8.forward' }).first().click();
  await shows(page, 'Functional.linear.8.forward');
  await page.keyboard.press('Home');
  await shows(page, 'Functional.embedding.0.forward');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await shows(page, 'Functional.layer_norm.0.forward');
  await page.keyboard.press('ArrowRight');
  assert.match((await table(page).getAttribute('aria-activedescendant')) ?? '', /^cell-3-1$/);
  await page.keyboard.press('PageDown');
  await eventually(
    () => selectedCall(page),
    (name) => name !== 'Functional.layer_norm.0.forward',
    'further down',
  );
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'call');
});

test('a call that is selected elsewhere is shown in the table', async ({ page }) => {
  await page.keyboard.press('/');
  await page.keyboard.type('gelu.25.forward');
  await page.keyboard.press('Enter');
  await eventually(
    () => table(page).locator('.row.selected').count(),
    (found) => found === 3,
    'its rows',
  );
});
