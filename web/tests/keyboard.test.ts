import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { eventually, pageTests, shows } from './support/cases.ts';

const test = pageTests({ layers: 4, ranks: 2, steps: 2 });

const focused = (page: Page) =>
  page.evaluate(() => {
    const one = document.activeElement as HTMLElement | null;
    return (
      one?.dataset['view'] ??
      one?.dataset['chart'] ??
      one?.dataset['field'] ??
      one?.textContent?.trim().slice(0, 30) ??
      ''
    );
  });

test('Tab reaches every part, and what has the focus shows it', async ({ page }) => {
  const seen: string[] = [];
  for (let press = 0; press < 80; press += 1) {
    await page.keyboard.press('Tab');
    seen.push(await focused(page));
    const style = await page.evaluate(() => {
      const one = document.activeElement;
      return one && one !== document.body ? getComputedStyle(one).outlineStyle : 'none';
    });
    if (await page.evaluate(() => document.activeElement === document.body)) break;
    assert.notEqual(style, 'none', `the focus on ${seen.at(-1)} can be seen`);
  }
  for (const part of ['step', 'rank', 'search', 'error', 'heat', 'tree', 'graph', 'row-filter', 'table']) {
    assert.ok(seen.includes(part), `${part} in ${seen.join(', ')}`);
  }
});

test('a walk with the keyboard alone: search, call, chart, tree, data flow, table', async ({ page }) => {
  await page.keyboard.press('/');
  await page.keyboard.type('softmax nothing');
  await eventually(
    () => page.locator('.search .list').innerText(),
    (text) => text.includes('No match'),
    'no match',
  );
  await page.keyboard.press('Control+A');
  await page.keyboard.type('linear.5 forw');
  await eventually(
    () => page.locator('.search [role="option"]').count(),
    (count) => count === 1,
    'one match',
  );
  await page.keyboard.press('Enter');
  await shows(page, 'Functional.linear.5.forward');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'call');
  await page.keyboard.press('f');
  await shows(page, 'Functional.gelu.2.forward');
  await page.keyboard.press('2');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'glance');
  for (let press = 0; press < 12 && (await focused(page)) !== 'error'; press += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowLeft');
  await shows(page, 'Functional.linear.7.forward');
  for (let press = 0; press < 20 && (await focused(page)) !== 'tree'; press += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowUp');
  await shows(page, 'Functional.layer_norm.5.forward');
  for (let press = 0; press < 20 && (await focused(page)) !== 'graph'; press += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await shows(page, 'Functional.linear.7.forward');
  await page.keyboard.press('5');
  for (let press = 0; press < 40 && (await focused(page)) !== 'table'; press += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('Home');
  await shows(page, 'Functional.embedding.0.forward');
});

test('the list of keys opens and closes', async ({ page }) => {
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keys' });
  await dialog.waitFor();
  assert.match(await dialog.innerText(), /next, previous call that needs attention/);
  await page.keyboard.press('Escape');
  await eventually(
    () => dialog.count(),
    (count) => count === 0,
    'closed',
  );
});

test('Escape closes the matches, and letters in a field are text', async ({ page }) => {
  await page.keyboard.press('/');
  await page.keyboard.type('f?/1');
  assert.equal(await page.locator('[data-field="search"]').inputValue(), 'f?/1');
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('listbox').count(), 0);
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'BODY');
});

test('tree, grid and search have their roles', async ({ page }) => {
  assert.equal(await page.getByRole('tree').count(), 1);
  assert.ok((await page.locator('[role="combobox"][aria-controls="search-list"]').count()) === 1);
  assert.ok((await page.getByRole('treeitem').count()) > 5);
  assert.equal(await page.getByRole('grid', { name: 'Rows' }).count(), 1);
  assert.ok((await page.getByRole('gridcell').count()) > 20);
  const active = await page.getByRole('tree').getAttribute('aria-activedescendant');
  assert.equal(await page.locator(`[id="${active}"]`).count(), 1);
});
