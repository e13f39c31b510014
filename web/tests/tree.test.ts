import assert from 'node:assert/strict';
import { describe } from 'node:test';
import type { Page } from 'playwright-core';
import { decodeColumn } from '../src/data/column.ts';
import type { Region } from '../src/payload.ts';
import { eventually, pageTests, shows } from './support/cases.ts';
import { modelParts } from './support/model.ts';
import { columnPart, jsonPart } from './support/page_file.ts';

const test = pageTests({ layers: 4 });

describe('a model with more lines than the tree has room for', () => {
  const test = pageTests({ layers: 30 });
  const isInView = (page: Page) =>
    page.getByRole('tree').evaluate((tree) => {
      const line = tree.querySelector('[aria-selected="true"]')?.getBoundingClientRect();
      const box = tree.getBoundingClientRect();
      return line !== undefined && line.top >= box.top && line.bottom <= box.bottom;
    });
  const seen = (page: Page, what: string) =>
    eventually(
      () => isInView(page),
      (is) => is,
      `${what} is in view in the tree`,
    );

  test('the call that is selected is in view, whoever selected it', async ({ page }) => {
    await seen(page, 'the first divergence');
    await page.keyboard.press('/');
    await page.keyboard.type('gelu.25.forward');
    await page.keyboard.press('Enter');
    await shows(page, 'Functional.gelu.25.forward');
    await seen(page, 'a call of the last layers');
    await page.keyboard.press('f');
    await seen(page, 'the first divergence again');
  });
});

test('the tree is open at the first divergence, and modules show what is in them', async ({ page }) => {
  const tree = page.getByRole('tree');
  const selected = tree.locator('[aria-selected="true"]');
  assert.match(await selected.innerText(), /Functional\.gelu\.2\.forward/);
  assert.equal(await selected.getAttribute('aria-level'), '4');
  const layers = tree.getByRole('treeitem', { name: /layers/ }).first();
  assert.equal(await layers.getAttribute('aria-expanded'), 'true');
  assert.match(await layers.innerText(), /74 calls/);
});

test('a module opens and closes by a click', async ({ page }) => {
  const tree = page.getByRole('tree');
  const module = tree.locator('.module').filter({ hasText: 'embed' });
  assert.equal(await module.getAttribute('aria-expanded'), 'false');
  await module.click();
  assert.equal(await module.getAttribute('aria-expanded'), 'true');
  await tree.locator('.call').filter({ hasText: 'Functional.embedding.0.forward' }).click();
  await shows(page, 'Functional.embedding.0.forward');
  await module.click();
  assert.equal(await module.getAttribute('aria-expanded'), 'false');
});

test('arrow keys move, open and close', async ({ page }) => {
  const tree = page.getByRole('tree');
  const active = async () => {
    const id = await tree.getAttribute('aria-activedescendant');
    return page.locator(`[id="${id}"]`).innerText();
  };
  await tree.focus();
  await page.keyboard.press('ArrowDown');
  await shows(page, 'Functional.linear.8.forward');
  await page.keyboard.press('ArrowLeft');
  assert.match(await active(), /mlp/);
  await page.keyboard.press('ArrowLeft');
  assert.equal(
    await page.locator(`[id="${await tree.getAttribute('aria-activedescendant')}"]`).getAttribute('aria-expanded'),
    'false',
  );
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  assert.match(await active(), /Functional/);
  await page.keyboard.press('Home');
  assert.match(await active(), /embed/);
});

test('a region opens to the calls of both sides', async ({ page }) => {
  const tree = page.getByRole('tree');
  await page.getByRole('button', { name: 'Open all' }).click();
  const region = tree.locator('.region');
  // Only lines in view are in the document.
  await tree.focus();
  for (let press = 0; press < 12 && (await region.count()) === 0; press += 1) await page.keyboard.press('PageUp');
  assert.match(await region.innerText(), /2 calls in the target, 1 in the golden/);
  const first = tree.locator('.sides').first();
  assert.match(await first.locator('[data-side="target"]').innerText(), /Tensor\.chunk\.0/);
  assert.match(await first.locator('[data-side="golden"]').innerText(), /Tensor\.glu\.0/);
  await first.locator('[data-side="golden"]').click();
  await shows(page, 'Tensor.glu.0.forward');
  assert.match(
    await page.locator('[data-field="region"]').innerText(),
    /2 calls in the target, 1 in the golden\. A different route/,
  );
  await region.click();
  await eventually(
    () => tree.locator('.sides').count(),
    (count) => count === 0,
    'closed',
  );
});

test('a region of modules with different names opens at the call that is selected', async ({ page }) => {
  const tree = page.getByRole('tree');
  await page.getByRole('button', { name: 'Close all' }).click();
  await page.keyboard.press('/');
  await page.keyboard.type('Tensor.glu');
  await page.keyboard.press('Enter');
  await shows(page, 'Tensor.glu.0.forward');
  assert.match(await tree.locator('.half.chosen').innerText(), /Tensor\.glu\.0/);
  assert.match(await tree.locator('.region').innerText(), /A different route to the same result/);
});

describe('a pair of calls with a name on each side', () => {
  const test = pageTests(() => {
    const parts = modelParts({ layers: 4 });
    const names = decodeColumn('golden', parts.get('calls/0/golden') ?? null, 0);
    const golden = Array.from({ length: names.length }, (_, call) => names.at(call));
    const pair = golden.indexOf('Functional.gelu.2.forward');
    golden[pair] = 'Functional.silu.0.forward';
    parts.set('calls/0/golden', columnPart(golden));
    const [region] = JSON.parse(String(parts.get('regions/0'))) as Region[];
    assert.ok(region && pair >= 0);
    region.target = [...region.target, pair];
    region.golden = [...region.golden, pair];
    parts.set('regions/0', jsonPart([region]));
    return parts;
  });

  test('each side of a region shows its own', async ({ page }) => {
    const tree = page.getByRole('tree');
    await page.getByRole('button', { name: 'Open all' }).click();
    await page.keyboard.press('/');
    await page.keyboard.type('Tensor.glu');
    await page.keyboard.press('Enter');
    await tree.locator('.sides').first().waitFor();
    const side = (name: string) => tree.locator(`.sides [data-side="${name}"]`).allInnerTexts();
    assert.equal((await side('target')).at(-1)?.trim(), 'Functional.gelu.2.forward');
    assert.ok((await side('golden')).some((text) => text.trim() === 'Functional.silu.0.forward'));
  });
});

test('calls that agree can be hidden', async ({ page }) => {
  const tree = page.getByRole('tree');
  await page.getByLabel('hide calls that agree').check();
  await eventually(
    () => tree.innerText(),
    (text) => !text.includes('Functional.linear.7.forward'),
    'hidden',
  );
  assert.match(await tree.innerText(), /Functional\.gelu\.2\.forward/);
});
